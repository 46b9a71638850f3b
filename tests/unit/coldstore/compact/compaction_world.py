"""A compaction without Spark, for tests of what reads the archive meanwhile."""

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.compact.compactor import ArchiveCompactor, CompactionConfig
from rhumbline.core.runtime.cold_store import ColdStore

GRACE_MS = 1000
CONFIG = CompactionConfig(file_bytes=60_000, row_group_bytes=2000, grace_ms=GRACE_MS)
LAST_RUN_MS = 3 * 2 * GRACE_MS
"""``compact_once`` at each multiple of twice the grace period up to this time does everything."""


async def compact_once(cold: ColdStore, now_ms: int, config: CompactionConfig = CONFIG) -> None:
    """Compact all archives of a cold store, as the job does."""
    compactor = ArchiveCompactor(cold, config, wall_ms=lambda: now_ms)
    listing = await scan_manifests(cold)
    for folder in sorted(listing.folders):
        await compactor.settle(listing, folder)
        groups = compactor.groups(await scan_manifests(cold), folder)
        if groups:
            moved = [await compactor.write(group, now_ms % 1000) for group in groups]
            await compactor.commit(groups[0][0], moved)


async def compact_completely(cold: ColdStore) -> None:
    """Compact until the replaced files are deleted."""
    for now_ms in range(2 * GRACE_MS, LAST_RUN_MS + 1, 2 * GRACE_MS):
        await compact_once(cold, now_ms)
