"""The write options of the data source."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import (
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from ...core.protocol.errors import ConfigurationError
from ...proxies.proxy_uri import is_proxy_uri
from ..secure_files import SecureFiles, take_secure_files

_HEADERS = MapType(StringType(), BinaryType())


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The parsed write options, which are pickled for executors. See ``parse_write_options``."""

    metadata: str
    """``metadata``: URI of the cluster, or of its write proxies (``grpc://``)."""
    namespace: str
    """``namespace``: namespace of the stream, by default ``default``."""
    region: str | None
    """``region``: region of the executors; required without proxies in a multi-region cluster."""
    stream: str
    """``stream``: stream to which the rows are appended.

    Without it, the column ``stream`` of each row names its stream.
    """
    keeps_txids: bool
    """``keepTxids``: give the records the txids of the column ``txid`` (default ``false``).

    Txids must not decrease (rule STR-14), so the query must have one partition.
    """
    write_id: str | None
    """``writeId``: name of a batch write; a repeat with the same name writes no row twice."""
    files: SecureFiles = field(default_factory=SecureFiles)
    """``tlsCa``, ``tlsCertificate``, ``tlsKey``, ``tlsServerName``, ``tokenFile``."""

    @property
    def uses_proxies(self) -> bool:
        """True if the query uses write proxies; then any number of tasks can write concurrently."""
        return is_proxy_uri(self.metadata)


def parse_write_options(given: Mapping[str, str], schema: StructType) -> WriteOptions:
    """Parse the options and check the columns. Raises ConfigurationError that names every fault."""
    remaining = {name.lower(): value for name, value in given.items() if name.lower() != "path"}
    remaining.pop("checkpointlocation", None)  # Spark's own

    def take(name: str) -> str | None:
        return remaining.pop(name.lower(), None)

    faults: list[str] = []
    keeps = (take("keepTxids") or "false").lower()
    options = WriteOptions(
        metadata=take("metadata") or "",
        namespace=take("namespace") or "default",
        region=take("region"),
        stream=take("stream") or "",
        keeps_txids=keeps == "true",
        write_id=take("writeId"),
        files=take_secure_files(take, faults),
    )
    columns = {field.name: field.dataType for field in schema.fields}
    checks = [
        (
            options.metadata,
            "metadata: set it to the URI of the cluster or of its write proxies (grpc://)",
        ),
        (
            options.stream or isinstance(columns.get("stream"), StringType),
            "stream: set it to the stream to append to, or give the rows a column stream of type "
            "string",
        ),
        (keeps in ("true", "false"), f"keepTxids: {keeps!r} is neither true nor false"),
        (
            isinstance(columns.get("payload"), BinaryType | StringType),
            "the rows have no column payload of type binary or string",
        ),
        (
            not options.keeps_txids or isinstance(columns.get("txid"), LongType),
            "keepTxids: the rows have no column txid of type bigint",
        ),
        (
            isinstance(columns.get("key", BinaryType()), BinaryType | StringType),
            "the column key is not of type binary or string",
        ),
        (
            columns.get("headers", _HEADERS)
            in (_HEADERS, MapType(StringType(), BinaryType(), False)),
            "the column headers is not of type map<string, binary>",
        ),
        (
            isinstance(columns.get("event_time", LongType()), LongType | TimestampType),
            "the column event_time is not of type timestamp, or bigint for milliseconds",
        ),
    ]
    faults += [text for holds, text in checks if not holds]
    faults += [f"{name}: unknown option" for name in sorted(remaining)]
    if faults:
        raise ConfigurationError("rhumbline sink: " + "; ".join(faults))
    return options
