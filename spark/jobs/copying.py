"""The job ``copy``: executors copy the archives of one cold store to another one."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pyspark.sql import SparkSession

from ...client.system_runtime import SystemClock
from ...coldstore.archive.archive_folder import ArchiveFolder
from ...coldstore.archive.catalog import scan_manifests
from ...coldstore.archive.manifest import Manifest
from ...coldstore.index.indexer import Indexer
from ...coldstore.proof.chain_writer import ChainWriter
from ...coldstore.restore.copy_plan import CopyPlan, plan_copy
from ...coldstore.restore.copy_relocations import copy_relocations, stored_archive
from ...coldstore.restore.copy_segment import copy_parts
from ...coldstore.stores.open_store import open_cold_store
from ...core.protocol.errors import CorruptionError, RhumblineError

CopiedSegment = tuple[bytes, str]
"""An encoded manifest, and why its parts were not copied, or ""."""
_Plans = Mapping[ArchiveFolder, CopyPlan]


class CopyOutcome(NamedTuple):
    """The segments that the target has now and lacked before, and the faults by key."""

    copied: list[Manifest]
    faults: dict[str, str]
    relocations: int = 0
    """Number of relocations that were copied, among them the proofs of erasures."""


def copy_archives(
    spark: SparkSession, source: str, target: str, prefix: str = "", *, tasks: int | None = None
) -> CopyOutcome:
    """Copy all archives below ``prefix`` (NAMESPACE or NAMESPACE/STREAM) to the store ``target``.

    Every part is compared with its digest, on the way and if the target has it. The driver then
    publishes the manifests of each stream in order, and its relocations: what was compacted or
    erased in the source since the last copy is so in the target, too, with the proof. If a segment
    cannot be copied, the copy of its stream ends before it, and other streams continue. Safe to
    repeat: only what is missing is copied. Raises the errors of the cold stores if one of them
    cannot be listed, and CorruptionError if the target is damaged.
    """
    plans, faults = asyncio.run(_plan(source, target, prefix))
    wanted = [one.encode() for plan in plans.values() for one in (*plan.segments, *plan.moved)]
    failed: dict[str, str] = {}
    if wanted:
        parallel = min(len(wanted), tasks or 4 * spark.sparkContext.defaultParallelism)
        done: list[CopiedSegment] = (
            spark.sparkContext.parallelize(wanted, parallel)
            .mapPartitions(lambda partition: _copy_parts(source, target, partition))
            .collect()
        )
        failed = {Manifest.decode(data).key: fault for data, fault in done if fault}
    return asyncio.run(_publish(target, plans, faults, failed))


async def _plan(source: str, target: str, prefix: str) -> tuple[_Plans, dict[str, str]]:
    """Return what is copied of each archive, and the faults by key."""
    old, new = open_cold_store(source), open_cold_store(target)
    plans: dict[ArchiveFolder, CopyPlan] = {}
    try:
        found, held = await scan_manifests(old, prefix), await scan_manifests(new, prefix)
        for error in held.faults.values():
            raise error
        faults = {key: str(error) for key, error in found.faults.items()}
        for folder in sorted(found.folders):
            if folder.tips in faults or folder.relocations in faults:
                continue  # what was erased cannot be proved
            try:
                ours = await stored_archive(old, found, folder)
                plan = plan_copy(ours, await stored_archive(new, held, folder))
            except CorruptionError as error:  # changed after the listing
                faults[folder.chain] = str(error)
                continue
            faults |= plan.faults
            plans[folder] = plan
    finally:
        await old.close()
        await new.close()
    return plans, faults


def _copy_parts(source: str, target: str, encoded: Iterable[bytes]) -> Iterator[CopiedSegment]:
    """Copy the parts of segments. Runs on an executor."""

    async def work() -> list[CopiedSegment]:
        old, new = open_cold_store(source), open_cold_store(target)
        done = []
        try:
            for data in encoded:
                manifest = Manifest.decode(data)
                try:
                    await copy_parts(old, new, manifest)
                except RhumblineError as error:
                    done.append((data, str(error)))
                else:
                    done.append((data, ""))
        finally:
            await old.close()
            await new.close()
        return done

    return iter(asyncio.run(work()))


async def _publish(
    target: str, plans: _Plans, faults: dict[str, str], failed: Mapping[str, str]
) -> CopyOutcome:
    copied: list[Manifest] = []
    relocations = 0
    store = open_cold_store(target)
    chains = ChainWriter(store)
    try:
        for folder, plan in plans.items():
            broken = {one.key: failed[one.key] for one in (*plan.segments, *plan.moved)
                      if one.key in failed}  # fmt: skip
            faults |= broken
            for manifest in plan.segments:
                if manifest.key in broken:
                    break  # the chain of this stream ends here
                await chains.publish(manifest, manifest.previous_link)
                await chains.cover(manifest)
                copied.append(manifest)
            if not broken:
                relocations += await copy_relocations(store, folder, plan, SystemClock().wall_ms)
        for namespace in sorted({folder.namespace for folder in plans}):
            await Indexer(store, namespace).run_once()
    finally:
        await store.close()
    return CopyOutcome(copied, faults, relocations)
