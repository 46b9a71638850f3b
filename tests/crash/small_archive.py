"""A small archive in memory that has every kind of object, and random damages to its objects."""

import asyncio
from dataclasses import dataclass
from random import Random

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.coldstore.index.index_keys import INDEXES, change_keys, head_key, pack_key
from rhumbline.coldstore.index.indexer import Indexer
from rhumbline.coldstore.index.manifest_index import ManifestIndex
from rhumbline.core.protocol.segments import Segment
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)
from rhumbline.tests.unit.coldstore.compact.compaction_world import compact_completely
from rhumbline.tests.unit.coldstore.erase.test_eraser import BY_KEY, LATE_MS, erase, settle

Objects = dict[str, bytes]

SEGMENTS, RECORDS = 5, 30
ERASED = 2
_STAGED_MS = 2 * LATE_MS

INDEX_KINDS = ("head", "pack", "changed", "noted")
"""Damage to an object of the index must not even lead to an error."""
_NOTES = ("changed", "noted")
_FOLDERS = {
    "part": ".parquet",
    "manifest": "/manifest-",
    "tip": "/tip/",
    "relocation": "/moved/",
    **{kind: f"/{kind}/" for kind in INDEX_KINDS},
}
"""What the keys of a kind of object contain."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A damage to one object."""

    kind: str
    """The kind of the object."""
    name: str
    """The kind of the damage."""
    key: str
    data: bytes | None
    """The damaged object; None if it is removed."""
    at: str
    """The place of the damage in the object."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of {self.key}{self.at}"


@dataclass(frozen=True, slots=True)
class SmallArchive:
    """The objects of an archive of one stream in namespace "test".

    Segments 1 and 2 lie in a merged file, without a record that was erased, and the old files are
    deleted. A record of segment 4 was erased, too, but its old files still exist. The index has all
    segments but the last one, of which there is a note.
    """

    objects: Objects
    segments: list[Segment]
    used: frozenset[str]
    """The keys of all objects but old parts, whose records moved, and old objects of the index."""

    @classmethod
    def create(cls) -> "SmallArchive":
        """Archive segments with several parts and row groups each."""
        cold, segments, stages = DictColdStore(), list[Segment](), list[Objects]()
        small = ArchiveConfig(part_bytes=80, row_group_bytes=40)

        async def make(world: LogWorld) -> None:
            await fill_stream(world, SEGMENTS, RECORDS)
            await archive_segments(world, cold, upto=3, config=small)
            await compact_completely(cold)
            assert await erase(cold, BY_KEY) == 2
            await settle(cold)
            stages.append(dict(cold.objects))
            await archive_segments(world, cold, upto=5, config=small)
            assert await erase(cold, BY_KEY, _STAGED_MS) == 1
            stages.append(dict(cold.objects))
            await archive_segments(world, cold, config=small)
            stages.append(dict(cold.objects))
            segments.extend(await world.segments("s"))

        world = LogWorld.create()
        world.run(make(world))
        cold.objects = asyncio.run(_indexed(stages))
        return cls(cold.objects, segments, frozenset(asyncio.run(_used(cold))))

    def damage(self, random: Random) -> Damage:
        """Choose a damage."""
        while True:
            kind = random.choice(sorted(_FOLDERS))
            keys = sorted(key for key in self.used if _FOLDERS[kind] in key)
            key, other = random.choice(keys), random.choice(keys)
            if kind in _NOTES:  # empty objects
                return Damage(kind, "remove", key, None, "")
            found = self._damage(random, kind, key, self.objects[other])
            if found.data != self.objects[key]:
                return found

    def _damage(self, random: Random, kind: str, key: str, other: bytes) -> Damage:
        data = self.objects[key]
        at, length = random.randrange(len(data)), random.randrange(1, 40)
        if kind == "part" and random.random() < 0.4:
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
        return Damage(kind, name, key, damages[name], f", byte {at}, length {length}")


async def _indexed(stages: list[Objects]) -> Objects:
    """Return the last of the stages, with an index that was written at each of the others.

    An indexer uses threads, so it cannot run in the virtual time in which the stages were made.
    """
    cold, before = DictColdStore(), Objects()
    for stage in stages:
        cold.objects = {key: data for key, data in cold.objects.items() if key.startswith(INDEXES)}
        new = stage.keys() - before.keys()
        cold.objects |= {key: stage[key] for key in stage if key in new or key[0] != "."}
        if stage is not stages[-1]:
            await Indexer(cold, "test").run_once()
        before = stage
    return cold.objects


async def _used(cold: DictColdStore) -> set[str]:
    listing = await scan_manifests(cold)
    assert not listing.faults
    parts = {one.part_key(part) for one in listing.manifests for part in one.parts}
    others = {key for key in cold.objects if not key.startswith(INDEXES) and ".parquet" not in key}
    indexed = await ManifestIndex(cold, "test").load()
    assert indexed is not None
    (changes,) = indexed.changes.values()
    packs = {pack_key("test", one.name) for one in indexed.head.packs}
    notes = {key for one in changes for key in change_keys(one)}
    return {*parts, *others, *packs, *notes, head_key("test", indexed.head.generation)}
