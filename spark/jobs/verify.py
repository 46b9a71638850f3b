"""The job ``verify``: executors read every byte of an archive and check the chain of segments."""

import asyncio
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession

from ...coldstore.archive.catalog import ManifestListing, scan_manifests
from ...coldstore.archive.manifest import Manifest
from ...coldstore.index.check_index import IndexCheck
from ...coldstore.proof.chain_tip import ChainTip
from ...coldstore.proof.verify import verify_next
from ...coldstore.stores.open_store import open_cold_store

EncodedLink = tuple[bytes, bytes | None, bytes | None]
"""The encoded manifests of a segment and of the previous segment, and the tip of the chain."""


def verify(
    spark: SparkSession, cold: str, prefix: str = "", *, tasks: int | None = None
) -> dict[str, list[str]]:
    """Verify all archives below ``prefix`` (NAMESPACE or NAMESPACE/STREAM). Contacts no cluster.

    Return the faults by segment ("namespace/stream/stream id/lssn"), or by key for a manifest that
    cannot be used; the list of an intact segment is empty. Raises the errors of the cold store.
    """
    listing, damaged = asyncio.run(_scanned(cold, prefix))
    manifests = listing.manifests
    if not manifests:
        return damaged
    links: list[EncodedLink] = []
    for number, manifest in enumerate(manifests):
        previous = manifests[number - 1] if number else None
        if previous is not None and previous.folder != manifest.folder:
            previous = None
        tip = listing.tips.get(manifest.folder)
        encoded = [None if one is None else one.encode() for one in (previous, tip)]
        links.append((manifest.encode(), encoded[0], encoded[1]))
    parallel = min(len(links), tasks or 4 * spark.sparkContext.defaultParallelism)
    found = (
        spark.sparkContext.parallelize(links, parallel)
        .mapPartitions(lambda partition: _verify_links(cold, partition))
        .collect()
    )
    return {**dict(found), **damaged}


async def _scanned(cold: str, prefix: str) -> tuple[ManifestListing, dict[str, list[str]]]:
    """Return the manifests, and the faults of objects and of the index by key."""
    store = open_cold_store(cold)
    try:
        check = IndexCheck(store, prefix)
        await check.load()
        listing = await scan_manifests(store, prefix)
        found = listing.faults | await check.faults(listing)
        return listing, {key: [str(error)] for key, error in found.items()}
    finally:
        await store.close()


def _verify_links(cold: str, links: Iterable[EncodedLink]) -> Iterator[tuple[str, list[str]]]:
    """Verify segments. Runs on an executor."""

    async def work() -> list[tuple[str, list[str]]]:
        store = open_cold_store(cold)
        found = []
        try:
            for data, previous_data, tip_data in links:
                manifest = Manifest.decode(data)
                previous = None if previous_data is None else Manifest.decode(previous_data)
                tip = None if tip_data is None else ChainTip.decode(tip_data)
                result = await verify_next(store, manifest, previous, tip)
                found.append(("/".join((*manifest.folder, str(manifest.lssn))), result.faults))
        finally:
            await store.close()
        return found

    return iter(asyncio.run(work()))
