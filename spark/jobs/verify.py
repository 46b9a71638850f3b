"""The job ``verify``: executors read every byte of an archive, and the chain is walked."""

import asyncio
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession

from ...coldstore.archive.catalog import list_manifests
from ...coldstore.archive.manifest import Manifest
from ...coldstore.archive.verify import verify_next
from ...coldstore.stores.open_store import open_cold_store

Link = tuple[bytes, bytes | None]
"""Manifests of a segment and of the one before it in its stream, encoded."""


def verify(
    spark: SparkSession, cold: str, prefix: str = "", *, tasks: int | None = None
) -> dict[str, list[str]]:
    """Checks all archives below ``prefix`` (NAMESPACE or NAMESPACE/STREAM). Asks no server.

    Returns the faults of each segment ("namespace/stream/lssn"); none: every byte is right. Raises
    CorruptionError for manifests that cannot be read, and what the store raises.
    """
    manifests = asyncio.run(_listed(cold, prefix))
    if not manifests:
        return {}
    links: list[Link] = []
    for number, one in enumerate(manifests):
        before = manifests[number - 1] if number else None
        if before is not None and (before.namespace, before.stream) != (one.namespace, one.stream):
            before = None
        links.append((one.encode(), None if before is None else before.encode()))
    parallel = min(len(links), tasks or 4 * spark.sparkContext.defaultParallelism)
    found = (
        spark.sparkContext.parallelize(links, parallel)
        .mapPartitions(lambda some: _verified(cold, some))
        .collect()
    )
    return dict(found)


async def _listed(cold: str, prefix: str) -> list[Manifest]:
    store = open_cold_store(cold)
    try:
        return await list_manifests(store, prefix)
    finally:
        await store.close()


def _verified(cold: str, links: Iterable[Link]) -> Iterator[tuple[str, list[str]]]:
    """On an executor."""

    async def work() -> list[tuple[str, list[str]]]:
        store = open_cold_store(cold)
        found = []
        try:
            for data, before in links:
                one = Manifest.decode(data)
                previous = None if before is None else Manifest.decode(before)
                verdict = await verify_next(store, one, previous)
                found.append((f"{one.namespace}/{one.stream}/{one.lssn}", verdict.faults))
        finally:
            await store.close()
        return found

    return iter(asyncio.run(work()))
