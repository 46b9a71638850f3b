"""A compaction without Spark, for tests of what reads the archive meanwhile."""

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.compact.compactor import ArchiveCompactor, CompactionConfig
from rhumbline.coldstore.compact.publish import SegmentMove
from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.core.runtime.cold_store import ColdStore
from rhumbline.tests.unit.coldstore.archive.archive_world import DictColdStore

GRACE_MS = 1000
CONFIG = CompactionConfig(file_bytes=60_000, row_group_bytes=2000, grace_ms=GRACE_MS)
LAST_RUN_MS = 3 * 2 * GRACE_MS
"""``compact_once`` at each multiple of twice the grace period up to this time does everything."""


class CrashingStore(DictColdStore):
    """A cold store whose change number ``crash_at``, and each one after it, is not carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        self.crash_at: int | None = None
        self.hides_relocations = False

    async def list(self, prefix: str = "") -> list[str]:
        found = await super().list(prefix)
        return [key for key in found if not (self.hides_relocations and "/moved/" in key)]

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        self._step()
        return await super().put_if_absent(key, data)

    async def delete(self, key: str) -> None:
        self._step()
        await super().delete(key)

    def _step(self) -> None:
        self.changes += 1
        if self.crash_at is not None and self.changes >= self.crash_at:
            raise UnavailableError("killed")


async def compact_once(cold: ColdStore, now_ms: int, config: CompactionConfig = CONFIG) -> None:
    """Compact all archives of a cold store, as the job does."""
    compactor = ArchiveCompactor(cold, config, wall_ms=lambda: now_ms)
    listing = await scan_manifests(cold)
    for folder in sorted(listing.folders):
        await compactor.settle(listing, folder)
        groups = compactor.groups(await scan_manifests(cold), folder)
        if groups:
            moves = [
                SegmentMove(group, await compactor.write(group, now_ms % 1000)) for group in groups
            ]
            await compactor.commit(moves)


async def compact_completely(cold: ColdStore) -> None:
    """Compact until the replaced files are deleted."""
    for now_ms in range(2 * GRACE_MS, LAST_RUN_MS + 1, 2 * GRACE_MS):
        await compact_once(cold, now_ms)
