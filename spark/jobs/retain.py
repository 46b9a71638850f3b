"""The job ``retain``: deletes old archived segments. The driver alone does this work."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from ...coldstore.archive.archive_folder import ArchiveFolder
from ...coldstore.archive.catalog import scan_manifests
from ...coldstore.archive.retention import RetentionLimits, retain
from ...coldstore.index.indexer import Indexer
from ...coldstore.stores.open_store import open_cold_store
from ...core.protocol.errors import NoSuchStreamError, RhumblineError


class RetainOutcome(NamedTuple):
    """The segments that were deleted by archive, and the faults by archive or key."""

    deleted: dict[ArchiveFolder, list[int]]
    faults: dict[str, str]


def retain_archives(
    cold: str,
    namespace: str,
    limits: RetentionLimits,
    *,
    stream: str = "",
    metadata: str | None = None,
    region: str | None = None,
) -> RetainOutcome:
    """Delete the segments of a namespace's archives that the limits do not keep.

    ``stream`` limits the job to the archives of one name. With ``metadata``, the URI of a cluster,
    no segment is deleted that a stream of the cluster still has. Safe to repeat. An archive that is
    damaged is not changed, and does not affect others. Raises the errors of the stores.
    """
    return asyncio.run(_retain(cold, namespace, limits, stream, metadata, region))


async def _retain(
    cold: str,
    namespace: str,
    limits: RetentionLimits,
    stream: str,
    metadata: str | None,
    region: str | None,
) -> RetainOutcome:
    store = open_cold_store(cold)
    outcome = RetainOutcome({}, {})
    try:
        prefix = f"{namespace}/{stream}" if stream else namespace
        listing = await scan_manifests(store, prefix)
        outcome.faults.update((key, str(error)) for key, error in listing.faults.items())
        folders = sorted(listing.folders)
        oldest = {}
        if metadata is not None:
            oldest = await _oldest(metadata, region, namespace, folders)
        for folder in folders:
            try:
                deleted = await retain(store, listing, folder, limits, below=oldest.get(folder))
            except RhumblineError as error:
                outcome.faults["/".join(folder)] = str(error)
            else:
                if deleted:
                    outcome.deleted[folder] = deleted
        await Indexer(store, namespace).run_once()
    finally:
        await store.close()
    return outcome


async def _oldest(
    metadata: str, region: str | None, namespace: str, folders: Iterable[ArchiveFolder]
) -> dict[ArchiveFolder, int]:
    """Return the oldest segment that the cluster has of each stream, the truncated ones too."""
    from ...client.connect import Client

    found: dict[ArchiveFolder, int] = {}
    async with Client(metadata, namespace=namespace, region=region) as client:
        for folder in folders:
            try:
                stream = await client.namespace().describe(folder.stream)
            except NoSuchStreamError:
                continue  # only the archive has it
            if stream.stream_id == folder.stream_id and stream.segments:
                found[folder] = min(segment.lssn for segment in stream.segments)
    return found
