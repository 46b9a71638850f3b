"""Watches the data directories, and restores the entries of one that has failed (rule DSK-4).

The index of the bookie still names every entry of a lost file. Reads of them are "unknown" until
the entry was fetched from a replica and written to the log. A file whose entries all have another
copy leaves the manifest; until then the work is repeated.
"""

import asyncio
from typing import Any

from ...protocol.errors import DiskFailedError, DiskFullError
from ...runtime.disk import Disk
from ...runtime.event_log import EventLog
from ...runtime.primitives.wakeup import Wakeup
from ..log.file_set import file_path
from ..log.log_format import SORTED_KIND
from ..maintenance.maintenance import Maintenance
from ..maintenance.scrubber import Scrubber
from ..storage import Storage
from .directory_records import probe
from .spread_disk import DataDirectory, SpreadDisk

_LOG = EventLog(__name__)
_PROBE_S_MAX = 30.0


class LostFiles:
    """The lost files of one bookie. ``run`` is owned by the process that serves the bookie."""

    def __init__(
        self,
        disk: Disk,
        storage: Storage,
        scrubber: Scrubber,
        maintenance: Maintenance,
        probe_ms: int,
    ) -> None:
        self._disk = disk if isinstance(disk, SpreadDisk) else SpreadDisk(disk, [])
        self._storage = storage
        self._scrubber = scrubber
        self._maintenance = maintenance
        self._probe_s = probe_ms / 1000
        self._wakeup = Wakeup()
        self._logged: tuple[list[int], int] | None = None
        self.unreadable_count = 0
        """Entries of lost files that no replica provided in the last attempt."""
        for directory in self._disk.directories:
            directory.on_failed = self._failed
            if directory.failure is not None:
                self._failed(directory)

    def numbers(self) -> list[int]:
        """Return the numbers of the sorted files in use that are lost."""
        files = self._storage.sorted
        return [n for n in files if self._disk.is_lost(file_path(SORTED_KIND, n))]

    def statistics(self) -> dict[str, Any]:
        """Return the gauges by name."""
        directories = self._disk.directories
        failed = [one.path for one in directories if one.failure is not None]
        return {
            "data_directories": len(directories),
            "data_directories_failed": len(failed),
            "failed_directories": failed,
            "lost_files": len(self.numbers()),
            "lost_entries": self.unreadable_count,
        }

    async def run(self) -> None:
        """Probes the directories and restores what was lost, until cancelled."""
        while self._disk.directories:
            for directory in self._disk.directories:
                if directory.failure is None:
                    await self._probe(directory)
            await self._restore()
            await self._wakeup.wait(self._probe_s)

    async def _probe(self, directory: DataDirectory) -> None:
        try:
            async with asyncio.timeout(_PROBE_S_MAX):
                await probe(directory.disk, directory.cookie)
        except (DiskFailedError, FileNotFoundError) as error:
            directory.fail(DiskFailedError(str(error)))
        except DiskFullError:
            return  # it can still be read
        except TimeoutError:
            directory.fail(DiskFailedError(f"no write ended within {_PROBE_S_MAX:g} s"))

    def _failed(self, directory: DataDirectory) -> None:
        lost = self.numbers()
        _LOG.error(
            "data directory failed",
            bookie=self._storage.bookie,
            directory=directory.path,
            files=lost,
            error=directory.failure,
        )
        self._wakeup.wake()

    async def _restore(self) -> None:
        """Fetches the entries of lost files, and lets the compactor drop files without need."""
        lost = self.numbers()
        if not lost:
            self.unreadable_count = 0
            return
        report = await self._scrubber.restore_files(lost)
        self.unreadable_count = len(report.unreadable)
        self._maintenance.retire_files(lost)
        result = (lost, self.unreadable_count)
        if result == self._logged:
            return
        self._logged = result
        _LOG.warning(
            "lost files restored",
            bookie=self._storage.bookie,
            files=lost,
            restored=report.repaired_count,
            missing=len(report.unreadable),
            ledgers=sorted({ledger_id for ledger_id, _ in report.unreadable})[:20],
        )
