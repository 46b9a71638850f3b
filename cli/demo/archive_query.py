"""The last part of the demo: archive the stream, stop the cluster, query the archive.

Spark runs the query if it is installed, otherwise pyarrow does. Without pyarrow there is no
archive.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ...client.connect import Client
from ...client.units import show_bytes
from ...core.protocol.errors import RhumblineError
from ..output import format_table

QUERY = """\
SELECT lssn AS segment, count(*) AS records, sum(length(payload)) AS bytes,
       date_format(min(created), 'HH:mm:ss.SSS') AS since,
       date_format(max(created), 'HH:mm:ss.SSS') AS until
FROM log GROUP BY lssn ORDER BY lssn"""
_TIME = "%H:%M:%S.%f"


@dataclass(frozen=True, slots=True)
class Archived:
    """Counts of the archived data."""

    segments: int
    files: int
    record_count: int
    payload_bytes: int
    stored_bytes: int
    seconds: float

    def summary(self) -> str:
        """Return the counts in one line."""
        return (
            f"{self.record_count:>9,} records in {self.files} Parquet files, "
            f"{show_bytes(self.stored_bytes)} for {show_bytes(self.payload_bytes)}, "
            f"read back in {self.seconds:.1f} s"
        )


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of the query."""

    table: str
    record_count: int
    payload_bytes: int
    seconds: float


async def archive_stream(
    client: Client, namespace: str, stream: str, root: Path
) -> Archived | None:
    """Archive the completed segments of a stream below ``root``; return None without pyarrow."""
    if find_spec("pyarrow") is None:
        return None
    from ...coldstore.archive.archive_service import unarchived_lssns
    from ...coldstore.archive.segment_archiver import SegmentArchiver
    from ...coldstore.stores.local import LocalColdStore

    started = time.monotonic()
    cold = LocalColdStore(root)
    try:
        archiver = SegmentArchiver.for_namespace(
            namespace, cold, runtime=client.runtime, ledgers=client.ledgers, store=client.store
        )
        waiting = await unarchived_lssns(client.namespace(), stream)
        done = [await archiver.archive(stream, lssn) for lssn in waiting]
    finally:
        await cold.close()
    return Archived(
        len(done),
        sum(len(manifest.parts) for manifest in done),
        sum(manifest.record_count for manifest in done),
        sum(manifest.payload_bytes for manifest in done),
        sum(part.size_bytes for manifest in done for part in manifest.parts),
        time.monotonic() - started,
    )


def missing_for_spark() -> str | None:
    """Return what a query with Spark lacks, or None."""
    if find_spec("pyspark") is None:
        return "pip install 'rhumbline[spark]'"
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        return "Spark needs Java 17"
    return None


def query_with_spark(namespace: str, stream: str, root: Path, log: Path) -> QueryResult:
    """Run ``QUERY`` over the archive below ``root``. Spark's messages are written to ``log``.

    Raises RhumblineError with the end of the log.
    """
    started = time.monotonic()
    with _stderr_to(log):
        try:
            rows = _run_query(namespace, stream, root)
        except Exception as error:  # whatever Spark and Java raise
            messages = log.read_text(errors="replace").strip()
            raise RhumblineError(f"Spark: {error}\n{messages[-2000:]}") from error
    return _result(rows, started)


def query_with_arrow(namespace: str, stream: str, root: Path) -> QueryResult:
    """Compute the result of ``QUERY`` from the folder of the stream's records with pyarrow."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    started = time.monotonic()
    (folder,) = (root / namespace / stream).glob("[0-9a-f]*")
    columns = {
        "segment": pc.field("lssn"),
        "bytes": pc.binary_length(pc.field("payload")),
        "created": pc.field("created"),
    }
    found = ds.dataset(folder).to_table(columns=columns).group_by("segment")
    computed = found.aggregate(
        [("bytes", "count"), ("bytes", "sum"), ("created", "min"), ("created", "max")]
    )
    rows: list[dict[str, object]] = [
        {
            "segment": row["segment"],
            "records": row["bytes_count"],
            "bytes": row["bytes_sum"],
            "since": row["created_min"].strftime(_TIME)[:-3],
            "until": row["created_max"].strftime(_TIME)[:-3],
        }
        for row in computed.sort_by("segment").to_pylist()
    ]
    return _result(rows, started)


def _result(rows: list[dict[str, object]], started: float) -> QueryResult:
    records, size = (sum(int(str(row[name])) for row in rows) for name in ("records", "bytes"))
    return QueryResult(format_table(rows), records, size, time.monotonic() - started)


def _run_query(namespace: str, stream: str, root: Path) -> list[dict[str, object]]:
    from ...spark.session import QUICK_START, open_session

    spark = open_session("rhumbline demo", master="local[2]", **QUICK_START)
    try:
        log = (
            spark.read.format("rhumbline")
            .option("archive", root.as_uri())
            .option("namespace", namespace)
            .option("subscribe", stream)
            .option("columns", "lssn,created,payload")
            .load()
        )
        log.createOrReplaceTempView("log")
        return [row.asDict() for row in spark.sql(QUERY).collect()]
    finally:
        spark.stop()


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect stderr of this process and its children to a file until the block ends."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
