"""The tables that ``rhumbline sql`` can query: their columns and what these mean."""

from typing import NamedTuple

from ..output_schema import Schema
from ..overview.bookies import BOOKIE_ROW
from ..overview.proxies import PROXY_ROW
from ..overview.streams import SUBSCRIPTION

_TYPES = {"integer": "INTEGER", "boolean": "INTEGER", "number": "REAL"}


class Column(NamedTuple):
    """A column of a table."""

    name: str
    type: str
    """TEXT, INTEGER or REAL."""
    meaning: str


class TableDefinition(NamedTuple):
    """A table and its columns."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def definition(self) -> str:
        """The statement that creates the table."""
        columns = ", ".join(f'"{column.name}" {column.type}' for column in self.columns)
        return f"CREATE TABLE {self.name} ({columns})"


def _of_row(row: dict[str, Schema]) -> tuple[Column, ...]:
    """Return the columns for the keys of a command's rows."""
    found = []
    for name, schema in row.items():
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        kind = next((_TYPES[one] for one in kinds if one in _TYPES), "TEXT")
        found.append(Column(name, kind, schema["description"]))
    return tuple(found)


_NAMESPACE = Column("namespace", "TEXT", "Namespace of the stream.")
_STREAM = Column("stream", "TEXT", "Name of the stream.")

TABLES = {
    table.name: table
    for table in (
        TableDefinition(
            "streams",
            "Streams of all namespaces.",
            (
                _NAMESPACE,
                _STREAM,
                Column("segments", "INTEGER", "Log segments, truncated ones included."),
                Column("open_segments", "INTEGER", "Segments in progress."),
                Column("records", "INTEGER", "Records in completed segments."),
                Column("size_bytes", "INTEGER", "Size of the completed segments."),
                Column("start", "TEXT", "DLSN of the first readable record."),
                Column("quorum", "TEXT", "E/WQ/AQ/R of the policy."),
                Column("follows_namespace", "INTEGER", "1 if the policy is that of the namespace."),
                Column("is_sealed", "INTEGER", "1 if an operator refuses all writers."),
                Column("owner", "TEXT", "Address of the write proxy that serves it."),
                Column("home_region", "TEXT", "Region whose proxies should serve it."),
            ),
        ),
        TableDefinition(
            "segments",
            "Log segments of all streams.",
            (
                _NAMESPACE,
                _STREAM,
                Column("segment", "INTEGER", "Number of the segment."),
                Column("state", "TEXT", "completed or in progress."),
                Column("ledger", "INTEGER", "Id of its ledger."),
                Column("records", "INTEGER", "Records; null while it is in progress."),
                Column("size_bytes", "INTEGER", "Size; null while it is in progress."),
                Column("residence", "TEXT", "Where its data is."),
                Column("created_at", "TEXT", "When it was opened."),
                Column("completed_at", "TEXT", "When its end was recorded."),
            ),
        ),
        TableDefinition(
            "subscriptions",
            "Subscriptions of all streams with their lag, up to a hundred of a stream.",
            (_NAMESPACE, _STREAM, *_of_row(SUBSCRIPTION)),
        ),
        TableDefinition(
            "ledgers",
            "Ledgers of the global metadata store.",
            (
                Column("ledger", "INTEGER", "Id of the ledger."),
                Column("state", "TEXT", "OPEN, IN_RECOVERY or CLOSED."),
                Column("ensemble_size", "INTEGER", "E."),
                Column("write_quorum", "INTEGER", "WQ."),
                Column("ack_quorum", "INTEGER", "AQ."),
                Column("min_regions", "INTEGER", "R of the first entry."),
                Column("last_entry", "INTEGER", "Last entry; null unless it is closed."),
                Column("length_bytes", "INTEGER", "Payload; null unless it is closed."),
                Column("fragments", "INTEGER", "Ensembles that followed each other."),
            ),
        ),
        TableDefinition(
            "fragments",
            "The bookies of each ledger: a row for each member of each ensemble.",
            (
                Column("ledger", "INTEGER", "Id of the ledger."),
                Column("first_entry", "INTEGER", "First entry of the ensemble."),
                Column("position", "INTEGER", "Index in the ensemble, from 0."),
                Column("bookie", "TEXT", "Id of the bookie."),
            ),
        ),
        TableDefinition("bookies", "Bookies, as `node ls` shows them.", _of_row(BOOKIE_ROW)),
        TableDefinition("proxies", "Proxies, as `proxy ls` shows them.", _of_row(PROXY_ROW)),
        TableDefinition(
            "metrics",
            "Present metrics of all servers that respond.",
            (
                Column("server", "TEXT", "Id of a bookie, or status address of another server."),
                Column("kind", "TEXT", "bookie, write-proxy, read-proxy, repair or archive."),
                Column("metric", "TEXT", "Name in Prometheus."),
                Column("labels", "TEXT", "Labels as a JSON object, for json_extract."),
                Column("value", "REAL", "The value now."),
            ),
        ),
    )
}
"""The tables by name."""
