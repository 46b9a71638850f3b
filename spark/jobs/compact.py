"""The job ``compact``: moves the records of small archived segments to few large files."""

import asyncio
from collections.abc import Iterable, Iterator
from random import SystemRandom
from typing import NamedTuple

from pyspark.sql import SparkSession

from ...client.system_runtime import SystemClock
from ...coldstore.archive.archive_folder import ArchiveFolder
from ...coldstore.archive.catalog import scan_manifests
from ...coldstore.archive.manifest import Manifest
from ...coldstore.archive.relocation import MovedSegment
from ...coldstore.compact.compactor import ArchiveCompactor, CompactionConfig
from ...coldstore.compact.publish import SegmentMove
from ...coldstore.index.indexer import Indexer
from ...coldstore.stores.open_store import open_cold_store
from ...core.protocol.errors import RhumblineError

WrittenGroup = tuple[list[bytes], tuple[MovedSegment, ...], str]
"""The encoded manifests of a group, where its segments will lie, and why it was not written, or
""."""


class CompactOutcome(NamedTuple):
    """The result of a compaction."""

    segments: int
    """Number of segments whose records moved."""
    files: int
    """Number of files that hold them."""
    merged: int
    """Number of files of earlier runs that were copied to the folders which tools open."""
    deleted: int
    """Number of files that were deleted, because they were replaced long enough ago."""
    faults: dict[str, str]
    """Error by stream, and by key for damaged objects."""


class _Plan(NamedTuple):
    groups: list[list[bytes]]
    """The encoded manifests of each group."""
    merged: int
    deleted: int
    faults: dict[str, str]
    namespaces: list[str]


def compact(
    spark: SparkSession,
    cold: str,
    prefix: str = "",
    config: CompactionConfig | None = None,
    *,
    tasks: int | None = None,
) -> CompactOutcome:
    """Compact all archives below ``prefix`` (NAMESPACE or NAMESPACE/STREAM). Contacts no cluster.

    Executors write files, and the driver publishes where segments lie. Files that earlier runs have
    replaced are deleted when the grace period is over. A run that is killed is continued by the
    next one. An archive that is damaged is not changed, and does not affect others. Raises the
    errors of the cold store if it cannot be listed.
    """
    config = config or CompactionConfig()
    plan = asyncio.run(_plan(cold, prefix, config))
    written: list[WrittenGroup] = []
    if plan.groups:
        parallel = min(len(plan.groups), tasks or 4 * spark.sparkContext.defaultParallelism)
        written = (
            spark.sparkContext.parallelize(plan.groups, parallel)
            .mapPartitions(lambda partition: _write(cold, config, partition))
            .collect()
        )
    done, faults = asyncio.run(_commit(cold, config, written, plan.namespaces))
    segments = sum(len(group) for group in done)
    return CompactOutcome(segments, len(done), plan.merged, plan.deleted, {**plan.faults, **faults})


async def _plan(cold: str, prefix: str, config: CompactionConfig) -> _Plan:
    """Settle earlier compactions, and choose the groups of segments to move."""
    store = open_cold_store(cold)
    compactor = ArchiveCompactor(store, config, wall_ms=SystemClock().wall_ms)
    groups: list[list[bytes]] = []
    merged = deleted = 0
    try:
        listing = await scan_manifests(store, prefix)
        faults = {key: str(error) for key, error in listing.faults.items()}
        for folder in sorted(listing.folders):
            try:
                settled = await compactor.settle(listing, folder)
            except RhumblineError as error:
                faults["/".join(folder)] = str(error)
                continue
            merged, deleted = merged + settled.merged, deleted + settled.deleted
            for group in compactor.groups(listing, folder):
                groups.append([manifest.encode() for manifest in group])
    finally:
        await store.close()
    namespaces = sorted({folder.namespace for folder in listing.folders})
    return _Plan(groups, merged, deleted, faults, namespaces)


def _write(
    cold: str, config: CompactionConfig, groups: Iterable[list[bytes]]
) -> Iterator[WrittenGroup]:
    """Write the files of groups. Runs on an executor."""

    async def work() -> list[WrittenGroup]:
        store = open_cold_store(cold)
        compactor = ArchiveCompactor(store, config, wall_ms=SystemClock().wall_ms)
        done: list[WrittenGroup] = []
        try:
            for encoded in groups:
                group = [Manifest.decode(data) for data in encoded]
                try:
                    moved = await compactor.write(group, SystemRandom().getrandbits(20))
                except RhumblineError as error:
                    done.append((encoded, (), str(error)))
                else:
                    done.append((encoded, moved, ""))
        finally:
            await store.close()
        return done

    return iter(asyncio.run(work()))


async def _commit(
    cold: str, config: CompactionConfig, written: list[WrittenGroup], namespaces: list[str]
) -> tuple[list[tuple[MovedSegment, ...]], dict[str, str]]:
    """Publish where the segments of each stream lie, and write the indexes of the namespaces.

    Return the groups that moved, and faults.
    """
    streams: dict[ArchiveFolder, list[SegmentMove]] = {}
    faults: dict[str, str] = {}
    for encoded, moved, fault in written:
        manifests = tuple(map(Manifest.decode, encoded))
        folder = manifests[0].folder
        if fault:
            faults["/".join(folder)] = fault
        else:
            streams.setdefault(folder, []).append(SegmentMove(manifests, moved))
    store = open_cold_store(cold)
    compactor = ArchiveCompactor(store, config, wall_ms=SystemClock().wall_ms)
    done: list[tuple[MovedSegment, ...]] = []
    try:
        for folder, moves in streams.items():
            try:
                await compactor.commit(moves)
            except RhumblineError as error:
                faults["/".join(folder)] = str(error)
            else:
                done += [move.segments for move in moves]
        for namespace in namespaces:
            await Indexer(store, namespace).run_once()
    finally:
        await store.close()
    return done, faults
