"""Watches the data directories, and restores the entries of one that has failed (rule DSK-4).

The index of the bookie still names every entry of a lost file. Reads of them are "unknown" until
the entry was fetched from a replica and written to the log. A file whose entries all have another
copy leaves the manifest; until then the work is repeated.

Meanwhile the bookie publishes the ledgers that lack entries (rule DSK-5): at first every ledger
with rows in a lost file, then those of which an attempt to restore everything left entries.
"""

import asyncio
from typing import Any

from ...protocol.errors import DiskFailedError, DiskFullError
from ...runtime.disk import Disk
from ...runtime.event_log import EventLog
from ...runtime.primitives.wakeup import Wakeup
from ..bookie import Bookie
from ..log.file_set import file_path
from ..log.log_format import SORTED_KIND
from .directory_records import probe
from .spread_disk import RESPONSE_S_MAX, DataDirectory, SpreadDisk

_LOG = EventLog(__name__)


class LostFiles:
    """The lost files of one bookie. ``run`` is owned by the process that serves the bookie."""

    def __init__(self, disk: Disk, bookie: Bookie, probe_ms: int) -> None:
        """``disk`` is that of the bookie."""
        self._disk = disk if isinstance(disk, SpreadDisk) else SpreadDisk(disk, [], lambda _: 0)
        self._bookie = bookie
        self._storage = bookie.storage
        self._probe_s = probe_ms / 1000
        self._lost: list[int] = []
        """The lost files that ``_lacking`` takes into account."""
        self._lacking: dict[int, None] = {}
        self._wakeup = Wakeup()
        self._logged: tuple[list[int], int] | None = None
        self.unreadable_count = 0
        """Entries of lost files that no replica provided in the last attempt."""
        self._storage.is_lost = self._is_lost
        if self._disk.directories:
            self._storage.directory_of_file = self._directory_of
        for directory in self._disk.directories:
            directory.on_failed = self._failed
            if directory.failure is not None:
                self._failed(directory)

    def numbers(self) -> list[int]:
        """Return the numbers of the sorted files in use that are lost."""
        return [number for number in self._storage.sorted if self._is_lost(number)]

    def _is_lost(self, number: int) -> bool:
        return self._disk.is_lost(file_path(SORTED_KIND, number))

    def _directory_of(self, number: int) -> str:
        return self._disk.directory_of(file_path(SORTED_KIND, number))

    def statistics(self) -> dict[str, Any]:
        """Return the gauges by name."""
        directories = self._disk.directories
        failed = [one.path for one in directories if one.failure is not None]
        return {
            "data_directories": len(directories),
            "data_directories_failed": len(failed),
            "failed_directories": failed,
            "data_directories_full": sum(map(_is_full, directories)),
            "data_directory": {one.path: self._directory(one) for one in directories},
            "lost_files": len(self.numbers()),
            "lost_entries": self.unreadable_count,
            "incomplete_ledgers": len(self._lacking),
        }

    def _directory(self, directory: DataDirectory) -> dict[str, Any]:
        return {
            "free_bytes": directory.free_bytes,
            "disk_bytes": directory.total_bytes,
            "files": self._disk.files_in(directory),
            "failed": directory.failure is not None,
            "full": _is_full(directory),
        }

    async def run(self) -> None:
        """Probes the directories and restores what was lost, until cancelled."""
        while self._disk.directories:
            for directory in self._disk.directories:
                if directory.failure is None:
                    await self._probe(directory)
            await self._measure()
            self._bookie.publish_lost(self._lacking)
            await self._restore()
            self._bookie.publish_lost(self._lacking)
            await self._wakeup.wait(self._probe_s)

    async def _measure(self) -> None:
        await self._disk.measure()
        usable = [one for one in self._disk.directories if one.failure is None]
        self._bookie.note_data_space(
            sum(one.free_bytes for one in usable if not one.is_full),
            sum(one.total_bytes for one in usable),
        )

    async def _probe(self, directory: DataDirectory) -> None:
        try:
            async with asyncio.timeout(RESPONSE_S_MAX):
                await probe(directory.disk, directory.cookie)
        except (DiskFailedError, FileNotFoundError) as error:
            directory.fail(DiskFailedError(str(error)))
        except DiskFullError:
            return  # it can still be read
        except TimeoutError:
            directory.fail(DiskFailedError(f"no write ended within {RESPONSE_S_MAX:g} s"))

    def _failed(self, directory: DataDirectory) -> None:
        lost = self.numbers()
        self._note_lost(lost)
        self._bookie.publish_lost(self._lacking)
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
            self._lost, self._lacking = [], {}
            return
        report = await self._bookie.scrubber.restore_files(lost)
        self.unreadable_count = len(report.unreadable)
        self._lost = [number for number in lost if number not in report.unlisted]
        self._lacking = {ledger_id: None for ledger_id, _ in report.unreadable}
        self._note_lost(self.numbers())  # another directory may have failed meanwhile
        self._bookie.maintenance.retire_files(lost)
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

    def _note_lost(self, numbers: list[int]) -> None:
        """Adds the ledgers that may have entries in files which are newly lost."""
        index, slots = self._storage.index, 0
        for number in numbers:
            if number not in self._lost:
                self._lost.append(number)
                file, rows = index.files.get(number), index.sealed_tiers.get(number)
                slots |= 0 if file is None else 1 << file.slot
                self._lacking |= dict.fromkeys(() if rows is None else rows.ledgers())
        if slots:
            bits = index.ledger_bits
            self._lacking |= {ledger_id: None for ledger_id in bits if bits[ledger_id] & slots}


def _is_full(directory: DataDirectory) -> bool:
    return directory.is_full and directory.failure is None
