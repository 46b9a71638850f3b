"""Damages an archive at random: ``python -m rhumbline.tests.crash.archive_damages 2000``.

Each damage changes, cuts, removes or exchanges one object: a part, a manifest, the tip of the
chain, or the head, a pack or a note of the index. Afterwards `archive verify` must find a fault.
The readers of Spark, with and without the index, and those of streams must return every record, or
raise an error; a short or wrong result without an error fails the run. So must a plain Parquet
reader of files that were verified before, as ``read_archive`` does. Damage to the index alone must
not even lead to an error.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.coldstore.index.check_index import IndexCheck
from rhumbline.coldstore.index.index_keys import change_keys, head_key, pack_key
from rhumbline.coldstore.index.indexer import Indexer
from rhumbline.coldstore.index.manifest_index import ManifestIndex
from rhumbline.coldstore.proof.verify_columns import check_file
from rhumbline.coldstore.proof.verify_run import verify_all
from rhumbline.core.protocol.errors import CorruptionError, RhumblineError
from rhumbline.core.protocol.segments import Segment
from rhumbline.spark.read import planner, split_reader
from rhumbline.spark.read.archive_frame import planned_file, planned_files
from rhumbline.spark.read.batch import RhumblineBatchReader
from rhumbline.spark.read.options import parse_options
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)
from rhumbline.tests.unit.spark.spark_world import Row, read_all

Objects = dict[str, bytes]
Entry = tuple[int, int, bytes]
"""LSSN, entry id, payload."""

_OF_INDEX = ("/head/", "/pack/")
_NOTES = ("/changed/", "/noted/")
_KINDS = (".parquet", "/manifest-", "/tip/", *_OF_INDEX, *_NOTES)


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


class DamagedArchive:
    """An archive in memory whose objects are damaged one at a time."""

    def __init__(self, objects: Objects, segments: list[Segment]) -> None:
        self._intact = objects
        self._segments = segments
        self._cold = DictColdStore()
        self._cold.objects = dict(objects)
        self._used = asyncio.run(_used_by_index(self._cold))
        self._rows = self._spark_rows("subscribe")
        assert self._spark_rows("subscribePattern") == self._rows
        assert self._verified_rows() == self._rows
        self._entries = self._stream_entries()
        assert len(self._rows) == 120

    @classmethod
    def create(cls, patch: pytest.MonkeyPatch) -> "DamagedArchive":
        """Archive four segments with several parts and row groups each."""
        cold = DictColdStore()
        found: list[Segment] = []
        stages: list[Objects] = []

        async def make(world: LogWorld) -> None:
            await fill_stream(world)
            small = ArchiveConfig(part_bytes=4000, row_group_bytes=40)
            for upto in (3, 4, 5):
                await archive_segments(world, cold, upto=upto, config=small)
                stages.append(dict(cold.objects))
            found.extend(await world.segments("s"))

        world = LogWorld.create()
        world.run(make(world))
        cold.objects = {}
        for stage in stages[:2]:
            cold.objects |= stage
            asyncio.run(Indexer(cold, "test").run_once())
        index = {key: data for key, data in cold.objects.items() if key.startswith(".index/")}
        cold.objects = index | stages[2]  # there is a note of the last segment
        archive = cls.__new__(cls)
        for module in (planner, split_reader):
            patch.setattr(module, "open_cold_store", lambda _: archive._cold)
        archive.__init__(cold.objects, found)  # type: ignore[misc]
        return archive

    def run(self, count: int, seed: int) -> Outcome:
        """Damage the archive ``count`` times."""
        random, outcome = Random(seed), Outcome()
        while sum(outcome.damages.values()) < count:
            name = self._damage(random)
            if self._cold.objects == self._intact:
                continue
            outcome.damages[name.partition(" of ")[0]] += 1
            if not self._verify_finds_it():
                outcome.missed.append(name)
            readers: dict[str, tuple[Callable[[], object], object]] = {
                "spark": (lambda: self._spark_rows("subscribe"), self._rows),
                "spark with the index": (
                    lambda: self._spark_rows("subscribePattern"),
                    self._rows,
                ),
                "verified files": (self._verified_rows, self._rows),
                "stream": (self._stream_entries, self._entries),
            }
            for reader, (read, expected) in readers.items():
                try:
                    found = read()
                except RhumblineError as error:
                    outcome.reads[f"{reader}: refused"] += 1
                    if name.startswith(("head", "pack", "changed", "noted")):
                        outcome.wrong.append(f"{reader}: {name}: {error}")
                    continue
                outcome.reads[f"{reader}: whole"] += 1
                if found != expected:
                    outcome.wrong.append(f"{reader}: {name}")
        return outcome

    def _damage(self, random: Random) -> str:
        """Damage one object and return the kind of the damage and its key."""
        self._cold.objects = objects = dict(self._intact)
        kind = random.choice(_KINDS)
        keys = sorted(key for key in objects if kind in key)
        if kind in (*_OF_INDEX, *_NOTES):
            keys = [key for key in keys if key in self._used]
        key = random.choice(keys)
        data, other = objects[key], objects[random.choice(keys)]
        if kind in _NOTES:  # empty objects
            del objects[key]
            return f"{kind.strip('/')} remove of {key}"
        at, length = random.randrange(len(data)), random.randrange(1, 40)
        if kind == ".parquet" and random.random() < 0.4:
            at = len(data) - random.randrange(1, min(len(data), 3000))  # in the footer
        damages: dict[str, bytes | None] = {
            "flip": data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :],
            "overwrite": data[:at] + random.randbytes(length) + data[at + length :],
            "cut": data[:at],
            "extend": data + random.randbytes(length),
            "drop bytes": data[:at] + data[at + length :],
            "exchange": other,
            "remove": None,
        }
        name = random.choice(sorted(damages))
        damaged = damages[name]
        if damaged is None:
            del objects[key]
        else:
            objects[key] = damaged
        return f"{kind.strip('./-')} {name} of {key}, byte {at}, length {length}"

    def _verify_finds_it(self) -> bool:
        async def faults() -> int:
            check = IndexCheck(self._cold)
            await check.load()
            listing = await scan_manifests(self._cold)
            results = await verify_all(self._cold, listing)
            found = len(listing.faults) + len(await check.faults(listing))
            return found + sum(len(one.faults) for one in results)

        return asyncio.run(faults()) > 0

    def _spark_rows(self, option: str) -> list[Row]:
        given = {"archive": "file:///cold", "namespace": "test", option: "s"}
        return read_all(RhumblineBatchReader(parse_options(given, is_streaming=False)))

    def _verified_rows(self) -> list[Row]:
        """Verify the files that a query needs, and read them with a reader that verifies nothing.

        Raises CorruptionError. Like ``read_archive``, it reads no indexes of pages.
        """
        given = {"archive": "file:///cold", "namespace": "test", "subscribe": "s"}
        found: list[Row] = []
        for key, splits in planned_files(parse_options(given, is_streaming=False)).items():
            columns = ["lssn", "entry_id", "slot", "txid", "payload"]
            file = planned_file(key, splits)
            checked = asyncio.run(check_file(self._cold, file, columns))
            if checked.fault or checked.is_missing:
                raise CorruptionError(f"{key}: {checked.fault or 'missing'}")
            assert not checked.has_others
            rows = pq.read_table(pa.BufferReader(self._cold.objects[key]), columns=columns)
            found += [
                ("{lssn}:{entry_id}:{slot}".format(**row), row["txid"], row["payload"])
                for row in rows.to_pylist()
            ]
        return found

    def _stream_entries(self) -> list[Entry]:
        return asyncio.run(self._read_ledgers())

    async def _read_ledgers(self) -> list[Entry]:
        found: list[Entry] = []
        for segment in self._segments:
            ledger = await ColdArchives(self._cold, "test").open("s", segment)
            next_id = 0
            while next_id <= segment.last_entry_id:
                for entry in await ledger.read(next_id, segment.last_entry_id):
                    found.append((segment.lssn, entry.entry_id, bytes(entry.payload)))
                    next_id = entry.entry_id + 1
            await ledger.aclose()
        return found


async def _used_by_index(cold: DictColdStore) -> set[str]:
    """Return the keys of the newest head, of its packs, and of notes that it lacks."""
    indexed = await ManifestIndex(cold, "test").load()
    assert indexed is not None
    assert indexed.changes
    packs = {pack_key("test", one.name) for one in indexed.head.packs}
    (changes,) = indexed.changes.values()
    notes = {key for one in changes for key in change_keys(one)}
    return {head_key("test", indexed.head.generation), *packs, *notes}


def main(given: list[str]) -> int:
    """Run the damages, print the counts, and return 1 if one was missed or read wrongly."""
    count, seed = int(given[0]), int(given[1]) if len(given) > 1 else 1
    with pytest.MonkeyPatch.context() as patch:
        outcome = DamagedArchive.create(patch).run(count, seed)
    for name, number in sorted(outcome.damages.items()) + sorted(outcome.reads.items()):
        print(f"{number:6d}  {name}")
    for line in outcome.missed:
        print(f"verify missed: {line}")
    for line in outcome.wrong:
        print(f"wrong without an error: {line}")
    print(
        f"{sum(outcome.damages.values())} damages: {len(outcome.missed)} missed by verify, "
        f"{len(outcome.wrong)} results wrong without an error"
    )
    return 1 if outcome.missed or outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
