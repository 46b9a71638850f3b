"""The job ``erase``: removes selected records from archives, and keeps the proof."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from random import SystemRandom
from typing import NamedTuple

from pyspark.sql import SparkSession

from ...client.system_runtime import SystemClock
from ...coldstore.archive.archive_folder import ArchiveFolder
from ...coldstore.archive.catalog import scan_manifests
from ...coldstore.archive.manifest import Manifest
from ...coldstore.archive.relocation import Erasure, MovedSegment
from ...coldstore.compact.compactor import ArchiveCompactor, CompactionConfig
from ...coldstore.compact.publish import SegmentMove
from ...coldstore.erase.eraser import ArchiveEraser
from ...coldstore.erase.hot_copies import HotSegments
from ...coldstore.erase.selection import RecordSelection
from ...coldstore.index.indexer import Indexer
from ...coldstore.stores.open_store import open_cold_store
from ...core.protocol.errors import RhumblineError

_WrittenGroup = tuple[list[bytes], tuple[MovedSegment, ...], str]
"""The encoded manifests of a group, what is left of it, and why it was not written, or ""."""


class EraseOutcome(NamedTuple):
    """The result of an erasure."""

    records: int
    """Number of records that were erased."""
    segments: int
    """Number of segments that held them."""
    deleted: int
    """Number of files that were deleted, because they were replaced long enough ago."""
    faults: dict[str, str]
    """Error by stream, and by key for damaged objects."""


def erase(
    spark: SparkSession,
    cold: str,
    prefix: str,
    selection: RecordSelection,
    erasure: Erasure,
    *,
    grace_ms: int,
    hot: Mapping[str, HotSegments] | None = None,
    tasks: int | None = None,
) -> EraseOutcome:
    """Erase the selected records of all archives below ``prefix``. Contacts no cluster.

    ``hot`` are the segments on bookies, by stream, that were found before; None: the cluster was
    not asked. The proof of each stream lists them.

    Executors write the files without these records, and the driver publishes them. The old files
    are deleted by the first run of this job, or of ``compact``, after the grace period. Safe to
    repeat. An archive that is damaged is not changed, and is a fault. Raises the errors of the cold
    store if it cannot be listed.
    """
    groups, faults = asyncio.run(_groups(cold, prefix, selection))
    written: list[_WrittenGroup] = []
    if groups:
        parallel = min(len(groups), tasks or 4 * spark.sparkContext.defaultParallelism)
        written = (
            spark.sparkContext.parallelize(groups, parallel)
            .mapPartitions(lambda partition: _write(cold, selection, partition))
            .collect()
        )
    done, failed = asyncio.run(_commit(cold, selection, erasure, hot, written))
    faults |= failed
    deleted, failed = asyncio.run(_settle(cold, prefix, grace_ms))
    counts = [
        segment.erased_count - before.erased_count
        for move in done
        for before, segment in zip(move.manifests, move.segments, strict=True)
    ]
    return EraseOutcome(sum(counts), sum(map(bool, counts)), deleted, faults | failed)


async def _groups(
    cold: str, prefix: str, selection: RecordSelection
) -> tuple[list[list[bytes]], dict[str, str]]:
    """Return the encoded manifests of each group of segments, and the faults."""
    store = open_cold_store(cold)
    try:
        listing = await scan_manifests(store, prefix)
    finally:
        await store.close()
    eraser = ArchiveEraser(store, selection, wall_ms=SystemClock().wall_ms)
    groups = [group for folder in sorted(listing.folders)
              for group in eraser.groups(listing, folder)]  # fmt: skip
    faults = {key: str(error) for key, error in listing.faults.items()}
    for folder in sorted(listing.folders):
        faults |= eraser.unreached(listing, folder)
    return [[manifest.encode() for manifest in group] for group in groups], faults


def _write(
    cold: str, selection: RecordSelection, groups: Iterable[list[bytes]]
) -> Iterator[_WrittenGroup]:
    """Write the files of groups with selected records. Runs on an executor."""

    async def work() -> list[_WrittenGroup]:
        store = open_cold_store(cold)
        eraser = ArchiveEraser(store, selection, wall_ms=SystemClock().wall_ms)
        done: list[_WrittenGroup] = []
        try:
            for encoded in groups:
                group = [Manifest.decode(data) for data in encoded]
                try:
                    move = await eraser.write(group, SystemRandom().getrandbits(20))
                except RhumblineError as error:
                    done.append((encoded, (), str(error)))
                else:
                    if move is not None:
                        done.append((encoded, move.segments, ""))
        finally:
            await store.close()
        return done

    return iter(asyncio.run(work()))


async def _commit(
    cold: str,
    selection: RecordSelection,
    erasure: Erasure,
    hot: Mapping[str, HotSegments] | None,
    written: list[_WrittenGroup],
) -> tuple[list[SegmentMove], dict[str, str]]:
    """Publish what is left of the segments of each stream. Return what was published."""
    streams: dict[ArchiveFolder, list[SegmentMove]] = {}
    faults: dict[str, str] = {}
    for encoded, moved, fault in written:
        manifests = tuple(map(Manifest.decode, encoded))
        folder = manifests[0].folder
        if fault:
            faults["/".join(folder)] = fault
        else:
            streams.setdefault(folder, []).append(SegmentMove(manifests, moved))
    done: list[SegmentMove] = []
    store = open_cold_store(cold)
    eraser = ArchiveEraser(store, selection, wall_ms=SystemClock().wall_ms)
    try:
        for folder, moves in streams.items():
            try:
                await eraser.commit(moves, _examined(erasure, folder, hot))
            except RhumblineError as error:
                faults["/".join(folder)] = str(error)
            else:
                done += moves
    finally:
        await store.close()
    return done, faults


def _examined(
    erasure: Erasure, folder: ArchiveFolder, hot: Mapping[str, HotSegments] | None
) -> Erasure:
    """Return the erasure of one stream, with its segments on bookies."""
    if hot is None:
        return erasure
    held = hot.get(folder.stream)
    is_same = held is not None and held.stream_id == folder.stream_id
    return replace(erasure, on_bookies=held.lssns if held is not None and is_same else ())


async def _settle(cold: str, prefix: str, grace_ms: int) -> tuple[int, dict[str, str]]:
    """Finish what the grace period allows, and write the indexes. Return deleted files, faults."""
    store = open_cold_store(cold)
    config = CompactionConfig(grace_ms=grace_ms)
    compactor = ArchiveCompactor(store, config, wall_ms=SystemClock().wall_ms)
    deleted, faults = 0, {}
    try:
        listing = await scan_manifests(store, prefix)
        for folder in sorted(listing.folders):
            try:
                deleted += (await compactor.settle(listing, folder)).deleted
            except RhumblineError as error:
                faults["/".join(folder)] = str(error)
        for namespace in sorted({folder.namespace for folder in listing.folders}):
            await Indexer(store, namespace).run_once()
    finally:
        await store.close()
    return deleted, faults
