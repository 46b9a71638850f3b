"""Opens a cold store by its URI: ``file:///path``, ``s3://bucket/prefix``, ``webhdfs://host:port/root``."""

import os
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from ...core.protocol.errors import ConfigurationError
from ...core.runtime.cold_store import ColdStore
from .local import LocalColdStore


def open_cold_store(uri: str) -> ColdStore:
    """The store that ``uri`` names. Raises ConfigurationError with what is wrong or missing.

    ``s3``: ``?endpoint=http://host:port&region=name``; the keys come from boto3's own chain, or
    from the environment as RHUMBLINE_S3_ACCESS_KEY and RHUMBLINE_S3_SECRET_KEY, never from the URI.
    ``webhdfs``: ``?user=name``.
    """
    parts = urlsplit(uri)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = {"file": set(), "s3": {"endpoint", "region"}, "webhdfs": {"user"}}.get(parts.scheme)
    if known is None:
        raise ConfigurationError(
            f"no cold store for {uri!r}: write file:///path, s3://bucket/prefix or webhdfs://host:port/root"
        )
    if unknown := sorted(set(options) - known):
        raise ConfigurationError(f"{uri!r}: unknown option {', '.join(unknown)}")
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise ConfigurationError(f"{uri!r}: write file:///absolute/path")
        return LocalColdStore(Path(unquote(parts.path)))
    if not parts.netloc:
        raise ConfigurationError(f"{uri!r} names no {'bucket' if parts.scheme == 's3' else 'host'}")
    return (
        _open_s3(parts.netloc, parts.path, options)
        if parts.scheme == "s3"
        else _open_hdfs(parts.netloc, parts.path, options)
    )


def _open_s3(bucket: str, path: str, options: dict[str, str]) -> ColdStore:
    try:
        from .s3 import S3ColdStore, S3Options
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"S3 needs {error.name}: pip install 'rhumbline[s3]'") from error
    return S3ColdStore(
        S3Options(
            bucket,
            path.strip("/"),
            endpoint=options.get("endpoint"),
            region=options.get("region", "us-east-1"),
            access_key=os.environ.get("RHUMBLINE_S3_ACCESS_KEY"),
            secret_key=os.environ.get("RHUMBLINE_S3_SECRET_KEY"),
        )
    )


def _open_hdfs(host: str, path: str, options: dict[str, str]) -> ColdStore:
    try:
        from .hdfs import HdfsColdStore, HdfsOptions
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"HDFS needs {error.name}: pip install 'rhumbline[hdfs]'"
        ) from error
    return HdfsColdStore(
        HdfsOptions(f"http://{host}", path or "/", user=options.get("user", "rhumbline"))
    )
