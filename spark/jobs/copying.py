"""The job ``copy``: executors copy the archives of one cold store to another one."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from pyspark.sql import SparkSession

from ...client.system_runtime import SystemClock
from ...coldstore.archive.manifest import Manifest
from ...coldstore.restore.archive_copier import ArchiveCopier, PlannedCopies
from ...coldstore.restore.copy_segment import copy_parts
from ...coldstore.stores.open_store import open_cold_store
from ...core.protocol.errors import RhumblineError

CopiedSegment = tuple[bytes, str]
"""An encoded manifest, and why its parts were not copied, or ""."""


class CopyOutcome(NamedTuple):
    """The segments that the target has now and lacked before, and the faults by key."""

    copied: list[Manifest]
    faults: dict[str, str]
    relocations: int = 0
    """Number of relocations that were copied, among them the proofs of erasures."""


def copy_archives(
    spark: SparkSession,
    source: str,
    target: str,
    prefix: str = "",
    *,
    check_readers: Callable[[], None] | None = None,
    tasks: int | None = None,
) -> CopyOutcome:
    """Copy all archives below ``prefix`` (NAMESPACE or NAMESPACE/STREAM) to the store ``target``.

    Every part is compared with its digest, on the way and if the target has it. The driver then
    publishes the manifests of each stream in order, and its relocations: what was compacted or
    erased in the source since the last copy is so in the target, too, with the proof. If a segment
    cannot be copied, the copy of its stream ends before it, and other streams continue. Safe to
    repeat: only what is missing is copied. An erasure in the source during the copy is a fault.
    ``check_readers`` is called before anything is written if only programs that know relocations
    can read the copy. Raises its errors, and those of the cold stores if one of them cannot be
    listed.
    """
    plans, faults = asyncio.run(_plan(source, target, prefix))
    if check_readers is not None and any(plan.needs_relocations for plan in plans.values()):
        check_readers()
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
    return asyncio.run(_publish(source, target, PlannedCopies(plans, faults), failed))


async def _plan(source: str, target: str, prefix: str) -> PlannedCopies:
    async with _open_copier(source, target) as copier:
        return await copier.plan(prefix)


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
    source: str, target: str, planned: PlannedCopies, failed: Mapping[str, str]
) -> CopyOutcome:
    outcome = CopyOutcome([], dict(planned.faults))
    async with _open_copier(source, target) as copier:
        for folder, plan in planned.plans.items():
            done = await copier.publish(folder, plan, failed)
            outcome.copied.extend(done.segments)
            outcome.faults.update(done.faults)
            outcome = outcome._replace(relocations=outcome.relocations + done.relocations)
        await copier.index_target({folder.namespace for folder in planned.plans})
    return outcome


@asynccontextmanager
async def _open_copier(source: str, target: str) -> AsyncGenerator[ArchiveCopier, None]:
    """Yield a copier, and close its stores at the end."""
    old, new = open_cold_store(source), open_cold_store(target)
    try:
        yield ArchiveCopier(old, new, wall_ms=SystemClock().wall_ms)
    finally:
        await old.close()
        await new.close()
