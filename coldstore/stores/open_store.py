"""Opens a cold store by its URI.

| URI | store |
|---|---|
| ``file:///path`` | a local directory |
| ``s3://bucket/prefix?endpoint=http://host:port&region=name`` | S3, or a compatible store |
| ``s3a://bucket/prefix`` | the same, as Hadoop writes it |
| ``webhdfs://host:port/root?user=name`` | HDFS, at the HTTP port of the NameNode |
| ``hdfs://host:port/root?user=name&http-port=9870`` | the same, as Hadoop writes it |
| ``swebhdfs://host:port/root?user=name&ca=/file.pem`` | HDFS with https |
| ``swebhdfs://host:port/root?authentication=kerberos`` | HDFS with https and Kerberos |

Packages add further schemes by entry points in the group ``rhumbline.cold_stores`` (see
``core/runtime/plugins.py``).
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from ...core.protocol.errors import ConfigurationError
from ...core.protocol.installation import needs_extra
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.plugins import COLD_STORES, OpenerTable
from .local import LocalColdStore

_SIMPLE, _KERBEROS = "simple", "kerberos"
_NAMENODE_HTTP_PORT = 9870
"""Hadoop's default."""

ColdStoreOpener = Callable[[str], ColdStore]
"""Opens a store by its URI, without contacting it; a plug-in provides one."""


def open_cold_store(uri: str) -> ColdStore:
    """Open the store that ``uri`` names.

    The keys of S3 come from the environment (RHUMBLINE_S3_ACCESS_KEY, RHUMBLINE_S3_SECRET_KEY and,
    for temporary ones, RHUMBLINE_S3_SESSION_TOKEN) or from boto3's own chain of credentials, never
    from the URI. RHUMBLINE_S3_ENDPOINT, RHUMBLINE_S3_REGION and RHUMBLINE_S3_CA apply to URIs
    without these options, and RHUMBLINE_HDFS_CA to those of HDFS. ``ca`` is a PEM file with the
    authorities that verify an https server. Raises ConfigurationError for a bad or incomplete URI,
    and PluginError if the package that adds the scheme is broken.
    """
    scheme = urlsplit(uri).scheme
    opener = _OPENERS.find(scheme)
    if opener is None:
        known = ", ".join(_OPENERS.schemes())
        raise ConfigurationError(f"no cold store for {uri!r}: unknown scheme (known: {known})")
    with opener.attributed():
        store = opener.open(uri)
        opener.check_interface(store, ColdStore)
    return store


def _open_local(uri: str) -> ColdStore:
    parts, _ = _split(uri, ())
    if parts.netloc or not parts.path.startswith("/"):
        raise ConfigurationError(f"{uri!r}: write file:///absolute/path")
    return LocalColdStore(Path(unquote(parts.path)))


def open_s3_store(uri: str, environ: Mapping[str, str] = os.environ) -> ColdStore:
    """Open a store in S3 with settings from ``environ``. Raises ConfigurationError."""
    parts, options = _split(uri, ("endpoint", "region", "ca"))
    if not parts.netloc:
        raise ConfigurationError(f"{uri!r} names no bucket: write s3://bucket/prefix")
    with needs_extra("the S3 cold store", "s3"):
        from .s3 import S3ColdStore, S3Options
    return S3ColdStore(
        S3Options(
            parts.netloc,
            parts.path.strip("/"),
            endpoint=options.get("endpoint") or environ.get("RHUMBLINE_S3_ENDPOINT"),
            region=options.get("region") or environ.get("RHUMBLINE_S3_REGION") or "us-east-1",
            access_key=environ.get("RHUMBLINE_S3_ACCESS_KEY"),
            secret_key=environ.get("RHUMBLINE_S3_SECRET_KEY"),
            session_token=environ.get("RHUMBLINE_S3_SESSION_TOKEN"),
            ca=options.get("ca") or environ.get("RHUMBLINE_S3_CA"),
        )
    )


def _open_hdfs(uri: str) -> ColdStore:
    parts, options = _split(uri, ("user", "ca", "authentication"))
    if not parts.netloc:
        raise ConfigurationError(f"{uri!r} names no host: write {parts.scheme}://host:port/root")
    kerberos = options.get("authentication", _SIMPLE) != _SIMPLE
    if kerberos:
        _check_kerberos(uri, parts.scheme, options)
    with needs_extra("the HDFS cold store", "hdfs"):
        from .hdfs import HdfsColdStore, HdfsOptions
    return HdfsColdStore(
        HdfsOptions(
            f"{'https' if parts.scheme == 'swebhdfs' else 'http'}://{parts.netloc}",
            parts.path or "/",
            user=options.get("user", "rhumbline"),
            ca=options.get("ca") or os.environ.get("RHUMBLINE_HDFS_CA"),
            kerberos=kerberos,
        )
    )


def _check_kerberos(uri: str, scheme: str, options: dict[str, str]) -> None:
    """Check the options of a URI with an authentication other than simple.

    Without https, whoever reads the traffic could use the cookie that the server gives to the
    holder of a ticket. Raises ConfigurationError.
    """
    given = options["authentication"]
    if given != _KERBEROS:
        problem = f"authentication {given!r} is neither {_SIMPLE} nor {_KERBEROS}"
    elif scheme != "swebhdfs":
        problem = "Kerberos needs https: write swebhdfs://host:port/root"
    elif "user" in options:
        problem = "with Kerberos the user is that of the ticket: leave out the option user"
    else:
        return
    raise ConfigurationError(f"{uri!r}: {problem}")


def _open_hadoop_uri(uri: str) -> ColdStore:
    """Open ``hdfs://``, whose port is that of Hadoop's own protocol, through WebHDFS."""
    parts, options = _split(uri, ("user", "http-port"))
    port = options.pop("http-port", str(_NAMENODE_HTTP_PORT))
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ConfigurationError(f"{uri!r}: http-port {port!r} is not between 1 and 65535")
    if not parts.hostname:
        raise ConfigurationError(f"{uri!r} names no host: write hdfs://host:port/root")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    web = parts._replace(scheme="webhdfs", netloc=f"{host}:{port}", query=urlencode(options))
    return _open_hdfs(web.geturl())


def _split(uri: str, known: tuple[str, ...]) -> tuple[SplitResult, dict[str, str]]:
    """Return the parts and the options of a URI. Raises ConfigurationError."""
    parts = urlsplit(uri)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(set(options) - set(known)):
        raise ConfigurationError(f"{uri!r}: unknown option {', '.join(unknown)}")
    return parts, options


_OPENERS: OpenerTable[ColdStoreOpener] = OpenerTable(
    "cold store",
    COLD_STORES,
    {
        "file": _open_local,
        "s3": open_s3_store,
        "s3a": open_s3_store,
        "webhdfs": _open_hdfs,
        "hdfs": _open_hadoop_uri,
        "swebhdfs": _open_hdfs,
    },
)
