"""The URI of an Iceberg catalogue, and the properties with which pyiceberg opens it.

| URI | catalogue |
|---|---|
| ``sqlite:///path/catalog.db`` | a SQLite file |
| ``http://host:port/path``, ``https://...`` | a REST catalogue |
| ``thrift://host:port`` | a Hive metastore |
| ``glue://region`` | AWS Glue |

Query parameters become properties of the catalogue: ``https://host/api?warehouse=logs``. Secrets
come from the environment, as pyiceberg reads it: ``PYICEBERG_CATALOG__RHUMBLINE__TOKEN``.
"""

import os
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from ...core.protocol.errors import ConfigurationError

CATALOG_NAME = "rhumbline"
"""The name of the catalogue, by which SQL catalogues tell their tables apart."""

_KNOWN = "sqlite:///path, http://, https://, thrift:// or glue://region"


def catalog_properties(uri: str) -> dict[str, str]:
    """Return the properties of the catalogue. Raises ConfigurationError for another URI."""
    parts = urlsplit(uri)
    given = dict(parse_qsl(parts.query))
    bare = parts._replace(query="", fragment="").geturl()
    match parts.scheme:
        case "sqlite" if not parts.netloc and parts.path.startswith("/"):
            return {"type": "sql", "uri": f"sqlite:///{unquote(parts.path)}", **given}
        case "http" | "https" if parts.netloc:
            return {"type": "rest", "uri": bare, **given}
        case "thrift" if parts.netloc:
            return {"type": "hive", "uri": bare, **given}
        case "glue" if parts.netloc:
            return {"type": "glue", "glue.region": parts.netloc, **given}
    raise ConfigurationError(f"no Iceberg catalogue for {uri!r}: write {_KNOWN}")


def cold_location(cold_uri: str) -> str:
    """Return the URI of a cold store's root as tables name it. Raises ConfigurationError.

    Tables need a store that Iceberg's own clients can read: a directory or S3.
    """
    parts = urlsplit(cold_uri)
    if parts.scheme not in ("file", "s3"):
        raise ConfigurationError(
            f"tables need a cold store in file:// or s3://, not {cold_uri!r}: the clients of "
            "Iceberg cannot read others"
        )
    return parts._replace(query="", fragment="").geturl().rstrip("/")


def storage_properties(cold_uri: str) -> dict[str, str]:
    """Return the properties with which pyiceberg reads and writes a cold store."""
    parts = urlsplit(cold_uri)
    return {} if parts.scheme == "file" else _s3_properties(parts)


def _s3_properties(parts: SplitResult) -> dict[str, str]:
    options = dict(parse_qsl(parts.query))
    found = {
        "s3.endpoint": options.get("endpoint") or os.environ.get("RHUMBLINE_S3_ENDPOINT"),
        "s3.region": options.get("region") or os.environ.get("RHUMBLINE_S3_REGION") or "us-east-1",
        "s3.access-key-id": os.environ.get("RHUMBLINE_S3_ACCESS_KEY"),
        "s3.secret-access-key": os.environ.get("RHUMBLINE_S3_SECRET_KEY"),
        "s3.session-token": os.environ.get("RHUMBLINE_S3_SESSION_TOKEN"),
    }
    return {name: value for name, value in found.items() if value}
