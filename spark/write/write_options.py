"""The options of the sink."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from ...core.protocol.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a query that writes asked for; travels to executors. Made by ``parse_write_options``."""

    metadata: str
    """URI of the cluster, or of its proxies (``grpc://``)."""
    namespace: str
    region: str | None
    """Region of the executors; needed where the cluster has several and there are no proxies."""
    stream: str
    keeps_txids: bool
    """Records keep the txids of their rows; these must not fall, so there is one partition."""
    write_id: str | None
    """Names a batch write: if it is repeated under the same name, nothing is written twice."""

    @property
    def uses_proxies(self) -> bool:
        """Whether it goes through write proxies: then any number of tasks write at once."""
        return self.metadata.startswith("grpc://")


def parse_write_options(given: Mapping[str, str], schema: StructType) -> WriteOptions:
    """Reads options and columns of a query. Raises ConfigurationError naming every fault."""
    left = {name.lower(): value for name, value in given.items() if name.lower() != "path"}
    left.pop("checkpointlocation", None)  # Spark's own

    def take(name: str) -> str | None:
        return left.pop(name.lower(), None)

    keeps = (take("keepTxids") or "false").lower()
    found = WriteOptions(
        metadata=take("metadata") or "",
        namespace=take("namespace") or "default",
        region=take("region"),
        stream=take("stream") or "",
        keeps_txids=keeps == "true",
        write_id=take("writeId"),
    )
    columns = {field.name: field.dataType for field in schema.fields}
    checks = [
        (found.metadata, "metadata: say which cluster, or grpc:// and its proxies"),
        (found.stream, "stream: say which one"),
        (keeps in ("true", "false"), f"keepTxids: {keeps!r} is neither true nor false"),
        (
            isinstance(columns.get("payload"), BinaryType | StringType),
            "the rows need a column payload, binary or string",
        ),
        (
            not found.keeps_txids or isinstance(columns.get("txid"), LongType),
            "keepTxids: the rows need a column txid, bigint",
        ),
    ]
    faults = [text for is_well, text in checks if not is_well]
    faults += [f"{name}: no such option" for name in sorted(left)]
    if faults:
        raise ConfigurationError("rhumbline sink: " + "; ".join(faults))
    return found
