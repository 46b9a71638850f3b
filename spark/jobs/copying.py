"""The job ``copy``: executors copy the archives of one cold store to another one."""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from pyspark.sql import SparkSession

from ...coldstore.archive.catalog import list_manifests, scan_manifests
from ...coldstore.archive.manifest import Manifest
from ...coldstore.index.indexer import Indexer
from ...coldstore.proof.chain_writer import ChainWriter
from ...coldstore.restore.copy_segment import copy_parts
from ...coldstore.stores.open_store import open_cold_store
from ...core.protocol.errors import RhumblineError

CopiedSegment = tuple[bytes, str]
"""An encoded manifest, and why its parts were not copied, or ""."""


class CopyOutcome(NamedTuple):
    """The segments that the target has now and lacked before, and the faults by key."""

    copied: list[Manifest]
    faults: dict[str, str]


def copy_archives(
    spark: SparkSession, source: str, target: str, prefix: str = "", *, tasks: int | None = None
) -> CopyOutcome:
    """Copy all archives below ``prefix`` (NAMESPACE or NAMESPACE/STREAM) to the store ``target``.

    Every part is compared with its digest, on the way and if the target has it. The driver then
    publishes the manifests of each stream in order. If a segment cannot be copied, the copy of its
    stream ends before it, and other streams continue. Safe to repeat: only what is missing is
    copied. Raises the errors of the cold stores if one of them cannot be listed.
    """
    missing, faults = asyncio.run(_missing_segments(source, target, prefix))
    if not missing:
        return CopyOutcome([], faults)
    parallel = min(len(missing), tasks or 4 * spark.sparkContext.defaultParallelism)
    done: list[CopiedSegment] = (
        spark.sparkContext.parallelize([one.encode() for one in missing], parallel)
        .mapPartitions(lambda partition: _copy_parts(source, target, partition))
        .collect()
    )
    return asyncio.run(_publish(target, done, faults))


async def _missing_segments(
    source: str, target: str, prefix: str
) -> tuple[list[Manifest], dict[str, str]]:
    old, new = open_cold_store(source), open_cold_store(target)
    try:
        found = await scan_manifests(old, prefix)
        held = {(one.folder, one.lssn): one for one in await list_manifests(new, prefix)}
    finally:
        await old.close()
        await new.close()
    faults = {key: str(error) for key, error in found.faults.items()}
    missing = []
    for one in found.manifests:
        copy = held.get((one.folder, one.lssn))
        if copy is None:
            missing.append(one)
        elif copy.link != one.link:
            faults[one.key] = f"{one.key}: the target has another archive of this segment"
    return missing, faults


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


async def _publish(target: str, done: list[CopiedSegment], faults: dict[str, str]) -> CopyOutcome:
    manifests = sorted(
        ((Manifest.decode(data), fault) for data, fault in done),
        key=lambda one: (one[0].folder, one[0].lssn),
    )
    copied: list[Manifest] = []
    store = open_cold_store(target)
    chains = ChainWriter(store)
    try:
        for _, segments in groupby(manifests, key=lambda one: one[0].folder):
            for manifest, fault in segments:
                if fault:
                    faults[manifest.key] = fault
                    break  # the chain of this stream ends here
                await chains.publish(manifest, manifest.previous_link)
                await chains.cover(manifest)
                copied.append(manifest)
        for namespace in sorted({manifest.namespace for manifest in copied}):
            await Indexer(store, namespace).run_once()
    finally:
        await store.close()
    return CopyOutcome(copied, faults)
