"""Damages an archive at random: ``python -m rhumbline.tests.crash.archive_damages 2000``.

Each damage changes, cuts, removes or exchanges one object: a part, a manifest, the tip of the
chain, a relocation of a compaction or an erasure, or the head, a pack or a note of the index.
Afterwards `archive verify` must find a fault. The data source of Spark, with and without the index,
``read_archive`` in a Spark session, and the readers of streams must return every record, or raise
an error; a short or wrong result without an error fails the run. Damage to the index alone must not
even lead to an error.

Each damage has a number, from which it follows. A run may therefore be divided, and a single damage
be repeated: the second argument is the number of the first damage.
"""

import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.index.check_index import IndexCheck
from rhumbline.coldstore.proof.verify_columns import check_file
from rhumbline.coldstore.proof.verify_run import verify_all
from rhumbline.coldstore.stores.open_store import open_cold_store
from rhumbline.core.protocol.errors import CorruptionError, RhumblineError
from rhumbline.spark.read import planner, split_reader
from rhumbline.spark.read.archive_frame import planned_file, planned_files, read_archive
from rhumbline.spark.read.batch import RhumblineBatchReader
from rhumbline.spark.read.options import parse_options
from rhumbline.spark.session import QUICK_START, open_session
from rhumbline.tests.crash.small_archive import (
    ERASED,
    INDEX_KINDS,
    RECORDS,
    SEGMENTS,
    Damage,
    SmallArchive,
)
from rhumbline.tests.unit.coldstore.archive.archive_world import DictColdStore
from rhumbline.tests.unit.spark.spark_world import Row, read_all

Entry = tuple[int, int, bytes]
"""LSSN, entry id, payload."""

_PROGRESS = 50
"""After this many damages the counts are printed."""
_IN_MEMORY = "file:///cold"
_COLUMNS = ["lssn", "entry_id", "slot", "txid", "payload"]


@dataclass(slots=True)
class Outcome:
    """The counts of a run, and what must never happen."""

    damages: Counter[str] = field(default_factory=Counter)
    """By kind of object and of damage."""
    reads: Counter[str] = field(default_factory=Counter)
    """Whole or refused, by reader."""
    missed: list[str] = field(default_factory=list)
    """Damages that verify did not find."""
    wrong: list[str] = field(default_factory=list)
    """Results that were short or wrong without an error."""


class SparkFolder:
    """A copy of the archive in a folder, which Spark reads with ``read_archive``."""

    def __init__(self, spark: SparkSession, root: Path, archive: SmallArchive) -> None:
        self._spark = spark
        self._root = root
        self._intact = archive.objects
        for key in self._intact:
            (root / key).parent.mkdir(parents=True, exist_ok=True)
            self.write(key, self._intact[key])

    def write(self, key: str, data: bytes | None) -> None:
        """Write an object, or remove it."""
        if data is None:
            (self._root / key).unlink()
        else:
            (self._root / key).write_bytes(data)

    def restore(self, key: str) -> None:
        """Write an object as it was."""
        self.write(key, self._intact[key])

    def rows(self, option: str) -> list[Row]:
        """Return the records in order. Raises RhumblineError and PySparkException."""
        given = {"archive": self._root.as_uri(), "namespace": "test", option: "s"}
        rows = read_archive(self._spark, **given).select(*_COLUMNS).collect()
        return [_row(row.asDict()) for row in sorted(rows)]


class DamagedArchive:
    """An archive in memory whose objects are damaged one at a time."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        spark: SparkSession | None = None,
        folder: Path | None = None,
    ) -> None:
        """With a session, Spark reads a copy of the archive in ``folder``, too."""
        self._archive = SmallArchive.create()
        self._cold = DictColdStore()
        self._cold.objects = dict(self._archive.objects)
        for module in (planner, split_reader):
            patch.setattr(
                module,
                "open_cold_store",
                lambda uri: self._cold if uri == _IN_MEMORY else open_cold_store(uri),
            )
        self._folder: SparkFolder | None = None
        if spark is not None:
            assert folder is not None
            self._folder = SparkFolder(spark, folder, self._archive)
        self._readers = self._all_readers()
        self._rows = self._source_rows("subscribe")
        assert len(self._rows) == SEGMENTS * RECORDS - ERASED
        self._entries = self._stream_entries()
        assert not self._verify_finds_it()
        for name, read in self._readers.items():
            assert read() == self._expected(name), name

    def run(self, numbers: range, outcome: Outcome) -> None:
        """Damage the archive once for each number, and add to ``outcome``."""
        for number in numbers:
            damage = self._archive.damage(Random(number))
            outcome.damages[f"{damage.kind} {damage.name}"] += 1
            self._cold.objects = dict(self._archive.objects)
            if damage.data is None:
                del self._cold.objects[damage.key]
            else:
                self._cold.objects[damage.key] = damage.data
            if not self._verify_finds_it():
                outcome.missed.append(f"{number}: {damage}")
            if self._folder is not None:
                self._folder.write(damage.key, damage.data)
            self._read_all(number, damage, outcome)
            if self._folder is not None:
                self._folder.restore(damage.key)

    def _read_all(self, number: int, damage: Damage, outcome: Outcome) -> None:
        uses_index = damage.kind in INDEX_KINDS or number % 2 == 0
        skipped = "read_archive" if uses_index else "read_archive with the index"  # it is slow
        for reader, read in self._readers.items():
            if reader == skipped:
                continue
            try:
                found = read()
            except (RhumblineError, PySparkException) as error:
                outcome.reads[f"{reader}: refused"] += 1
                if damage.kind in INDEX_KINDS:
                    outcome.wrong.append(f"{number}: {reader}: {damage}: {error}")
                continue
            outcome.reads[f"{reader}: whole"] += 1
            if found != self._expected(reader):
                outcome.wrong.append(f"{number}: {reader}: {damage}")

    def _all_readers(self) -> Mapping[str, Callable[[], object]]:
        readers: dict[str, Callable[[], object]] = {
            "data source": lambda: self._source_rows("subscribe"),
            "data source with the index": lambda: self._source_rows("subscribePattern"),
            "verified files": self._verified_rows,
            "stream": self._stream_entries,
        }
        if (folder := self._folder) is not None:
            readers["read_archive"] = lambda: folder.rows("subscribe")
            readers["read_archive with the index"] = lambda: folder.rows("subscribePattern")
        return readers

    def _expected(self, reader: str) -> object:
        return self._entries if reader == "stream" else self._rows

    def _verify_finds_it(self) -> bool:
        async def faults() -> int:
            check = IndexCheck(self._cold)
            await check.load()
            listing = await scan_manifests(self._cold)
            results = await verify_all(self._cold, listing)
            found = len(listing.faults) + len(await check.faults(listing))
            return found + sum(len(one.faults) for one in results)

        return asyncio.run(faults()) > 0

    def _source_rows(self, option: str) -> list[Row]:
        given = {"archive": _IN_MEMORY, "namespace": "test", option: "s"}
        return read_all(RhumblineBatchReader(parse_options(given, is_streaming=False)))

    def _verified_rows(self) -> list[Row]:
        """Verify the files that a query needs, and read them with a reader that verifies nothing.

        Raises CorruptionError. Like ``read_archive``, it reads no indexes of pages.
        """
        given = {"archive": _IN_MEMORY, "namespace": "test", "subscribe": "s"}
        found: list[Row] = []
        for key, splits in planned_files(parse_options(given, is_streaming=False)).items():
            file = planned_file(key, splits)
            checked = asyncio.run(check_file(self._cold, file, _COLUMNS))
            if checked.fault or checked.is_missing:
                raise CorruptionError(f"{key}: {checked.fault or 'missing'}")
            assert not checked.has_others
            rows = pq.read_table(pa.BufferReader(self._cold.objects[key]), columns=_COLUMNS)
            found += map(_row, rows.to_pylist())
        return found

    def _stream_entries(self) -> list[Entry]:
        return asyncio.run(self._read_ledgers())

    async def _read_ledgers(self) -> list[Entry]:
        found: list[Entry] = []
        for segment in self._archive.segments:
            ledger = await ColdArchives(self._cold, "test").open("s", segment)
            next_id = 0
            while next_id <= segment.last_entry_id:
                for entry in await ledger.read(next_id, segment.last_entry_id):
                    found.append((segment.lssn, entry.entry_id, bytes(entry.payload)))
                    next_id = entry.entry_id + 1
            await ledger.aclose()
        return found


def _row(row: Mapping[str, object]) -> Row:
    txid, payload = row["txid"], row["payload"]
    assert isinstance(txid, int)
    assert isinstance(payload, bytes | bytearray)
    return "{lssn}:{entry_id}:{slot}".format(**row), txid, bytes(payload)


def _judgement(outcome: Outcome) -> str:
    return (
        f"{outcome.damages.total()} damages: {len(outcome.missed)} missed by verify, "
        f"{len(outcome.wrong)} results wrong without an error"
    )


def main(given: list[str]) -> int:
    """Run the damages, print the counts, and return 1 if one was missed or read wrongly."""
    count, first = int(given[0]), int(given[1]) if len(given) > 1 else 1
    outcome = Outcome()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="rhumbline-damages-"))
        stack.callback(shutil.rmtree, folder)
        spark = open_session("archive-damages", master="local[1]", **QUICK_START)
        stack.callback(spark.stop)
        damaged = DamagedArchive(stack.enter_context(pytest.MonkeyPatch.context()), spark, folder)
        for begin in range(first, first + count, _PROGRESS):
            end = min(begin + _PROGRESS, first + count)
            damaged.run(range(begin, end), outcome)
            print(f"... {begin} to {end - 1}: {_judgement(outcome)}", flush=True)
    for name, number in sorted(outcome.damages.items()) + sorted(outcome.reads.items()):
        print(f"{number:6d}  {name}")
    for line in outcome.missed:
        print(f"verify missed: {line}")
    for line in outcome.wrong:
        print(f"wrong without an error: {line}")
    print(_judgement(outcome))
    return 1 if outcome.missed or outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
