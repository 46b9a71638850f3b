"""Opens a cold store by its URI: ``file:///path``, ``s3://bucket/prefix``, ``webhdfs://host:port/root``."""

import os
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from ...core.protocol.errors import ConfigurationError
from ...core.protocol.extras import needs_extra
from ...core.runtime.cold_store import ColdStore
from .local import LocalColdStore


def open_cold_store(uri: str) -> ColdStore:
    """Open the store that ``uri`` names. Raises ConfigurationError for a bad or incomplete URI.

    The options of ``s3`` are ``?endpoint=http://host:port&region=name``. The keys come from the
    environment (RHUMBLINE_S3_ACCESS_KEY and RHUMBLINE_S3_SECRET_KEY) or from boto3's own chain of
    credentials, never from the URI. The option of ``webhdfs`` is ``?user=name``.
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
    with needs_extra("the S3 cold store", "s3"):
        from .s3 import S3ColdStore, S3Options
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
    with needs_extra("the HDFS cold store", "hdfs"):
        from .hdfs import HdfsColdStore, HdfsOptions
    return HdfsColdStore(
        HdfsOptions(f"http://{host}", path or "/", user=options.get("user", "rhumbline"))
    )
