"""Compares equal queries on an archive: Rhumbline's data source, and Iceberg's scan of its table.

The data source plans and reads as in Spark, but in this process, and pyarrow applies the conditions
to what it returns, as Spark does. Iceberg's scan is that of pyiceberg. Each query begins without
anything that an earlier one has read. The bytes are those that the process requested from the
operating system, so they include catalogue, manifests and footers.
"""

import hashlib
import operator
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import expressions as iceberg
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import ArrowScan

from ...client.system_runtime import SystemClock
from ...coldstore.archive.schema import SCHEMA
from ...coldstore.iceberg.catalog_uri import CATALOG_NAME, catalog_properties
from ...coldstore.iceberg.iceberg_tables import IcebergTables
from ...coldstore.iceberg.registrar import TableRegistrar
from ...coldstore.stores.local import LocalColdStore
from ...spark.read.batch import RhumblineBatchReader
from ...spark.read.options import parse_options
from ...spark.read.splits import ArchiveSplit, PackedSplit
from ..scan_archive import FIRST_TXID, NAMESPACE, SET_RECORDS, STREAM, ArchiveShape

SOURCE, ICEBERG = "data source", "Iceberg"
COLUMNS = ("lssn", "entry_id", "slot", "txid", "created", "key", "payload")


class Condition(NamedTuple):
    """A comparison of a column with a value, which every row of a result fulfils."""

    column: str
    sign: str
    value: int | bytes | datetime

    @property
    def for_source(self) -> str:
        """The condition as the option ``where`` of the data source has it."""
        value = f"'{self.value.isoformat()}'" if isinstance(self.value, datetime) else self.value
        return f"{self.column} {self.sign} {value!s}"

    def for_iceberg(self) -> iceberg.BooleanExpression:
        """Return the condition as an expression of Iceberg."""
        kinds: dict[str, Any] = {  # whose types are pydantic's, not those of their constructors
            ">=": iceberg.GreaterThanOrEqual, "<": iceberg.LessThan, "=": iceberg.EqualTo,
        }  # fmt: skip
        value = self.value.isoformat() if isinstance(self.value, datetime) else self.value
        found: iceberg.BooleanExpression = kinds[self.sign](self.column, value)
        return found

    def for_rows(self) -> "pc.Expression":
        """Return the condition as an expression of pyarrow."""
        compare = {">=": operator.ge, "<": operator.lt, "=": operator.eq}[self.sign]
        value = pa.scalar(self.value, SCHEMA.field(self.column).type)
        return compare(pc.field(self.column), value)


class PrunedQuery(NamedTuple):
    """A query and the number of records that it must return."""

    name: str
    conditions: tuple[Condition, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class PrunedScan:
    """The cost and the result of a query with one reader."""

    query: str
    reader: str
    files: int
    """Files that were planned."""
    plan_bytes: int
    bytes_read: int
    """Bytes that were read in total, with those for the plan."""
    plan_seconds: float
    seconds: float
    rows: int
    digest: str
    """SHA-256 of the rows, in order of position."""


def queries(shape: ArchiveShape) -> list[PrunedQuery]:
    """Return the queries: a hundredth by time, txid, segment or key, one entry, and everything.

    Segments must end at the end of a record set.
    """
    assert shape.records % (shape.segments * SET_RECORDS) == 0, "an entry is incomplete"
    few = max(1, shape.records // 100)
    sets = max(1, few // SET_RECORDS) * SET_RECORDS
    middle = shape.segments // 2 + 1
    first = shape.numbers(middle).start
    segments = max(1, shape.segments // 100)
    times = [
        datetime.fromtimestamp(shape.created_ms(number) / 1000, UTC)
        for number in (first - SET_RECORDS, first - SET_RECORDS + sets)
    ]
    key = shape.keys // 2
    return [
        _between("time", "created", *times, rows=sets),
        _between("txid", "txid", FIRST_TXID + first + 7, FIRST_TXID + first + 7 + few, rows=few),
        _between(
            "segment", "lssn", middle, middle + segments,
            rows=segments * len(shape.numbers(middle)),
        ),
        PrunedQuery(
            "entry", (Condition("lssn", "=", middle), Condition("entry_id", "=", 1)), SET_RECORDS
        ),
        PrunedQuery(
            "key",
            (Condition("key", "=", shape.key(key)),),
            len(range(key, shape.records, shape.keys)),
        ),
        PrunedQuery("everything", (), shape.records),
    ]  # fmt: skip


def _between(
    name: str, column: str, low: int | datetime, end: int | datetime, *, rows: int
) -> PrunedQuery:
    return PrunedQuery(name, (Condition(column, ">=", low), Condition(column, "<", end)), rows)


async def register_table(root: Path, catalog_uri: str) -> int:
    """Register the archive below ``root`` in a catalogue; return the number of its segments."""
    cold = LocalColdStore(root)
    tables = IcebergTables(catalog_uri, cold.uri)
    try:
        done = await TableRegistrar(cold, NAMESPACE, tables, SystemClock()).run_until_even()
    finally:
        await tables.close()
        await cold.close()
    assert not done.faults, done.faults
    return done.registered


def measure_pruning(root: Path, catalog_uri: str, shape: ArchiveShape) -> Iterator[PrunedScan]:
    """Measure each query with both readers, after one that is not measured.

    Raises AssertionError if a result is wrong, or if the readers return different rows.
    """
    asked = queries(shape)
    readers: dict[str, Callable[[Sequence[Condition]], _Plan]] = {
        SOURCE: lambda conditions: _plan_source(root, conditions),
        ICEBERG: lambda conditions: _plan_iceberg(catalog_uri, conditions),
    }
    for reader in readers.values():
        reader(asked[0].conditions).read()
    for query in asked:
        digests = set()
        for name, reader in readers.items():
            done = _measure(query, name, reader)
            assert done.rows == query.rows, f"{name}, {query.name}: {done.rows} rows"
            digests.add(done.digest)
            yield done
        assert len(digests) == 1, f"{query.name}: the readers return different rows"


class _Plan(NamedTuple):
    files: int
    read: Callable[[], "pa.Table"]


def _measure(
    query: PrunedQuery, name: str, plan: Callable[[Sequence[Condition]], _Plan]
) -> PrunedScan:
    begun_s, begun = time.monotonic(), _requested_bytes()
    planned = plan(query.conditions)
    planned_s, planned_bytes = time.monotonic(), _requested_bytes()
    rows = planned.read()
    done_s, done = time.monotonic(), _requested_bytes()
    return PrunedScan(
        query.name, name, planned.files, planned_bytes - begun, done - begun,
        planned_s - begun_s, done_s - begun_s, rows.num_rows, _digest(rows),
    )  # fmt: skip


def _requested_bytes() -> int:
    """Return the bytes that this process has read by system calls, from caches as well."""
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["rchar"])


def _plan_source(root: Path, conditions: Sequence[Condition]) -> _Plan:
    given = {
        "archive": root.as_uri(),
        "namespace": NAMESPACE,
        "subscribe": STREAM,
        "columns": ",".join(COLUMNS),
    }
    # `where` has no keys
    if known := [one.for_source for one in conditions if not isinstance(one.value, bytes)]:
        given["where"] = " and ".join(known)
    reader = RhumblineBatchReader(parse_options(given, is_streaming=False))
    tasks = reader.partitions()
    keys: set[str] = set()
    for task in tasks:
        splits = task.splits if isinstance(task, PackedSplit) else (task,)
        keys.update(one.key for one in splits if isinstance(one, ArchiveSplit))

    def read() -> "pa.Table":
        found = pa.Table.from_batches(batch for task in tasks for batch in reader.read(task))
        if not conditions:
            return found
        return found.filter(reduce(operator.and_, [one.for_rows() for one in conditions]))

    return _Plan(len(keys), read)


def _plan_iceberg(catalog_uri: str, conditions: Sequence[Condition]) -> _Plan:
    catalog = load_catalog(CATALOG_NAME, **catalog_properties(catalog_uri))
    table = catalog.load_table((NAMESPACE, STREAM))
    wanted: iceberg.BooleanExpression = iceberg.AlwaysTrue()
    for one in conditions:
        wanted = iceberg.And(wanted, one.for_iceberg())
    scan = table.scan(wanted, selected_fields=COLUMNS)
    tasks = list(scan.plan_files())

    def read() -> "pa.Table":
        return ArrowScan(table.metadata, table.io, scan.projection(), wanted).to_table(tasks)

    return _Plan(len(tasks), read)


def _digest(rows: "pa.Table") -> str:
    """Return the SHA-256 of rows in order of position, whichever Arrow types hold them."""
    ordered = rows.select(COLUMNS).sort_by([(name, "ascending") for name in COLUMNS[:3]])
    digest = hashlib.sha256()
    for name in COLUMNS:
        column = pc.cast(ordered.column(name), SCHEMA.field(name).type)
        values = column.to_pylist() if pa.types.is_binary(column.type) else None
        if values is None:
            digest.update(pc.cast(column, pa.int64()).to_numpy().tobytes())
        else:
            sizes = [-1 if value is None else len(value) for value in values]
            digest.update(pa.array(sizes, pa.int64()).to_numpy().tobytes())
            digest.update(b"".join(value or b"" for value in values))
    return digest.hexdigest()
