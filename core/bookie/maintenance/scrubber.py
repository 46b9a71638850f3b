"""The scrubber: a slow scan of all sealed files that verifies and repairs them (rule BKE-23).

Index files are verified too. One that is damaged or missing is reported to the storage, which
rebuilds it from its data file.

For a damaged part, the scrubber finds the entries that the index locates in it. Entries that are
still readable one by one are written to the log again. The others are fetched from a replica (by
``fetch``, which verifies them), written to the log and read back. Then nothing needs the damaged
part any more. Until then, reads of an unreadable entry fail with "unknown".
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ...protocol.errors import CorruptionError, RhumblineError
from ...runtime.primitives.rate_limiter import RateLimiter
from ...wire.entry import ENTRY_HEADER, ENTRY_HEADER_BYTES
from ..index.entry_index import IndexedEntry, Location
from ..index.index_file import IndexFile
from ..log.commit_group import Outbox
from ..log.log_format import (
    FILE_HEADER_BYTES,
    LOG_KIND,
    OFFSET_BITS,
    OFFSET_MASK,
    SORTED_KIND,
    decode_file_header,
)
from ..log.replay import Damage, scan_file
from ..storage import Storage

Fetch = Callable[[int, int], Awaitable[bytes | None]]
"""Function of (ledger id, entry id) that returns a verified entry from a replica, or None."""


@dataclass(slots=True)
class ScrubReport:
    """The results of one scrub."""

    file_count: int = 0
    verified_bytes: int = 0
    damaged_indexes: list[int] = field(default_factory=list)
    """Numbers of the data files whose index files did not verify."""
    damages: list[Damage] = field(default_factory=list)
    unreadable: list[tuple[int, int]] = field(default_factory=list)
    """(ledger id, entry id) of entries that no replica provided."""
    unlisted: list[int] = field(default_factory=list)
    """Numbers of damaged files whose entries could not be listed, so nothing is known of them."""
    rescued_count: int = 0
    """Number of intact entries in damaged groups that were written again."""
    repaired_count: int = 0
    """Number of entries that were restored from a replica."""


class Scrubber:
    """Scrubs one storage. ``fetch`` may be set at any time; without it replicas are not used."""

    def __init__(self, storage: Storage, bytes_per_s: int) -> None:
        self._storage = storage
        self._rate_limiter = RateLimiter(bytes_per_s)
        self.fetch: Fetch | None = None
        self.last_report: ScrubReport | None = None
        self.repaired_count = 0

    async def walk(self) -> ScrubReport:
        """Verifies every sealed file once. Raises DiskFailedError only if the log has failed."""
        report = ScrubReport()
        storage = self._storage
        kinds = [(LOG_KIND, number) for number in storage.sealed_logs]
        kinds += [(SORTED_KIND, number) for number in storage.sorted]
        for kind, number in kinds:
            if number not in storage.sealed_logs and number not in storage.sorted:
                continue  # compacted and removed meanwhile
            damages = await self._verify(kind, number, report)
            if damages:
                report.damages.extend(damages)
                await self._repair(number, damages, report)
        for file in list(storage.index.files.values()):
            await self._verify_index(file, report)
        self.last_report = report
        return report

    async def restore_files(self, numbers: list[int]) -> ScrubReport:
        """Fetches every entry that the index names in files which cannot be read at all."""
        report = ScrubReport()
        for number in numbers:
            damage = Damage(number, 0, OFFSET_MASK, "the file is lost")
            await self._repair(number, [damage], report)
        return report

    async def _verify_index(self, file: IndexFile, report: ScrubReport) -> None:
        """Reads all parts of an index file from the disk, also those that are in memory."""
        index, number = self._storage.index, file.number
        try:
            await file.verify_blocks(self._rate_limiter.acquire)
            found = await self._storage.index_files.read(file.data_file.kind, number)
            if found is None:
                raise CorruptionError(f"{file.file.path}: the directory is damaged, or missing")
            await found[0].file.close()
        except RhumblineError as error:
            if index.files.get(number) is file:  # else it was replaced or removed meanwhile
                report.damaged_indexes.append(number)
                index.note_damage(file, error)

    async def _verify(self, kind: int, number: int, report: ScrubReport) -> list[Damage]:
        """Reads one file to its end; an unreadable file or header damages the whole file."""
        storage = self._storage
        report.file_count += 1
        try:
            file = await storage.files.open(kind, number)
            header = decode_file_header(await file.read(0, FILE_HEADER_BYTES), file.path)
            data_file = storage.data_files.get(number)
            if data_file is None or header[:3] != data_file[:3]:
                raise CorruptionError(f"{file.path}: the header is not that of this file")
            end = data_file.end
            scan = await scan_file(
                file, header, end, lambda offset, body: None, self._rate_limiter.acquire
            )
        except (RhumblineError, FileNotFoundError) as error:
            return [Damage(number, 0, OFFSET_MASK, str(error))]
        report.verified_bytes += end
        return scan.damages

    async def _repair(self, number: int, damages: list[Damage], report: ScrubReport) -> None:
        rows = await self._rows_in(number, damages)
        if rows is None:
            report.unlisted.append(number)
        for row in rows or ():
            ledger_id, entry_id, position, length = row
            location = Location(position, length)
            if await self._is_replaced(ledger_id, entry_id, location):
                continue
            if await self._rescue(ledger_id, entry_id, location):
                report.rescued_count += 1
            elif await self.restore(ledger_id, entry_id):
                report.repaired_count += 1
                self.repaired_count += 1
            else:
                report.unreadable.append((ledger_id, entry_id))

    async def _is_replaced(self, ledger_id: int, entry_id: int, location: Location) -> bool:
        """Return whether the ledger was deleted, or a newer copy of the entry can be read."""
        storage = self._storage
        try:
            newest = await storage.locate(ledger_id, entry_id)
            if newest != location:
                await storage.read_from_file(ledger_id, entry_id, newest)
        except RhumblineError:
            return not storage.is_held(ledger_id)
        return newest != location

    async def _rescue(self, ledger_id: int, entry_id: int, location: Location) -> bool:
        """Writes an intact entry of a damaged group to the log again; False if it is bad."""
        try:
            entry = await self._storage.read_from_file(ledger_id, entry_id, location)
            await restore_entry(self._storage, entry)
        except RhumblineError:
            return False
        return True

    async def _rows_in(self, number: int, damages: list[Damage]) -> list[IndexedEntry] | None:
        """Return the rows of a file that lie in the damaged parts; None if they are not known."""
        index = self._storage.index
        file, tier = index.files.get(number), index.sealed_tiers.get(number)
        if file is not None:
            try:
                columns = await file.columns()
            except RhumblineError:
                return None  # the index file is rebuilt; the next scrub retries
        elif tier is not None:
            columns = list(tier.columns())
        else:
            return None
        found: list[IndexedEntry] = []
        for ledger_id, rows in columns:
            page = [IndexedEntry(ledger_id, *row) for row in rows.page(0, len(rows))]
            found += [row for row in page if _is_in(row, number, damages)]
            await asyncio.sleep(0)
        return found

    async def restore(self, ledger_id: int, entry_id: int) -> bool:
        """Fetches an entry, writes it to the log and reads it back; returns False if that fails."""
        if self.fetch is None:
            return False
        try:
            entry = await self.fetch(ledger_id, entry_id)
            if entry is None:
                return False
            _check_identity(entry, ledger_id, entry_id)
            await restore_entry(self._storage, entry)
            location = await self._storage.locate(ledger_id, entry_id)
            return await self._storage.read_from_file(ledger_id, entry_id, location) == entry
        except RhumblineError:
            return False  # reads stay "unknown"; the next scrub retries


def _is_in(row: IndexedEntry, number: int, damages: list[Damage]) -> bool:
    if row.position >> OFFSET_BITS != number:
        return False
    start = row.position & OFFSET_MASK
    return any(start < damage.end and start + row.length > damage.start for damage in damages)


def _check_identity(entry: bytes, ledger_id: int, entry_id: int) -> None:
    if len(entry) < ENTRY_HEADER_BYTES or ENTRY_HEADER.unpack_from(entry)[:2] != (
        ledger_id,
        entry_id,
    ):
        raise CorruptionError(f"a replica returned another entry for {ledger_id}:{entry_id}")


class _Restoring:
    """A response sink without a connection, which waits until one entry is durable."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def deliver(self, outbox: Outbox) -> None:
        """See commit_group.AddSink."""
        if not self.done.done():
            self.done.set_result(None)

    def reject(self, outbox: Outbox, error: RhumblineError) -> None:
        """See commit_group.AddSink."""
        if not self.done.done():
            self.done.set_exception(error)


async def restore_entry(storage: Storage, entry: bytes) -> None:
    """Writes an entry of a known ledger to the log again and waits until it is durable.

    Raises UnknownStateError (limbo) or NoSuchLedgerError if the ledger is unknown, or the failure
    of the log.
    """
    ledger_id = ENTRY_HEADER.unpack_from(entry)[0]
    ledger = storage.states.ledgers.get(ledger_id)
    if ledger is None:
        raise storage.absence(ledger_id)
    if storage.log.failure is not None:
        raise storage.log.failure
    restoring = _Restoring()
    storage.add(ledger, entry, restoring)
    await restoring.done
