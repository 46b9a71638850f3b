"""Reads an archived segment through the interface of its closed ledger (rule STR-22).

Stream readers therefore need no separate code for archives. Entries are rebuilt from rows with the
same ids, slots, txids, positions and payloads, as views of the columns. Control records are not
archived: an empty control record replaces each of them, so that slots and entry ids stay the same.
Sets without content stand for erased records (rule ARC-66). The extension areas of record sets and
their compression are not restored.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ...core.log.decoded_entry import DecodedEntry, size_of
from ...core.log.ledger_interface import LedgerEntry
from ...core.protocol.errors import (
    ClosedError,
    CorruptionError,
    NoSuchLedgerError,
    NoSuchObjectError,
    RhumblineError,
)
from ...core.protocol.record_set import (
    Kind,
    RecordSet,
    decode_entry,
    encode_control,
    encode_erased,
)
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.tasks import wait_until_done
from ..archive.manifest import Manifest
from ..archive.part_file import PartFile
from ..archive.schema import MICROSECONDS_PER_MS
from ..erase.erased_set import ErasedRecords
from .record_columns import RecordColumns

CHUNK_BYTES_MAX = 1 << 20
"""A read ends after the entry with which the payloads read so far reach this size."""
CHUNK_ENTRIES_MAX = 1000
"""Maximum number of entries of one read."""
_PREFETCHED_MAX = 2
"""Row groups in memory besides the current one. With only one, the reader would wait for it, since
decoding a row group takes longer than reading its entries."""


class _Before(NamedTuple):
    """The state of a segment before a position, without erased records."""

    records: int = 0
    txid: int = 0
    """Txid of the last record; 0 if there is none."""
    created_ms: int = 0
    """Its time; 0 if there is none."""


class _RowGroupLocation(NamedTuple):
    """The location of a row group in the segment's part files, as the footers describe it."""

    part: int
    group: int
    first_entry_id: int
    last_entry_id: int
    before: _Before


class ArchivedLedger:
    """See ReadableLedger. Sequential reads prefetch the next row groups."""

    def __init__(self, cold: ColdStore, manifest: Manifest, ledger_id: int) -> None:
        self.ledger_id = ledger_id
        self.last_add_confirmed = manifest.last_entry_id
        self.is_closed = True
        self._cold = cold
        self._manifest = manifest
        self._erased = ErasedRecords(manifest.erased)
        self._end = _Before()
        self._files: list[PartFile] = []
        self._locations: list[_RowGroupLocation] = []
        self._last_entry_ids: list[int] = []  # one for each element of _locations
        self._current: tuple[int, RecordColumns] | None = None
        self._prefetched: deque[tuple[int, asyncio.Task[RecordColumns]]] = deque()  # consecutive
        self._is_reader_closed = False

    async def open(self) -> "ArchivedLedger":
        """Read the footers of all parts.

        Raises NoSuchLedgerError, CorruptionError and UnavailableError.
        """
        before = _Before()
        for number, part in enumerate(self._manifest.parts):
            try:
                file = await PartFile.open(self._cold, self._manifest.part_key(part), part)
            except NoSuchObjectError as error:
                raise self._missing_archive(error) from error
            self._files.append(file)
            for index, group in enumerate(file.row_groups):
                self._locations.append(
                    _RowGroupLocation(
                        number, index, group.first_entry_id, group.last_entry_id, before
                    )
                )
                records = before.records + group.record_count
                created_ms = group.created_us[1] // MICROSECONDS_PER_MS
                before = _Before(records, group.last_txid, created_ms)
        self._last_entry_ids = [location.last_entry_id for location in self._locations]
        if before.records != self._manifest.stored_records:
            raise CorruptionError(
                f"{self._manifest.key}: the parts hold {before.records} records, the manifest "
                f"lists {self._manifest.stored_records}"
            )
        self._end = before._replace(txid=self._segment_last_txid())
        return self

    async def read(self, first: int, last: int, ahead_bytes: int = 0) -> Sequence[LedgerEntry]:
        """See ReadableLedger. Row groups are read ahead, whatever ``ahead_bytes`` is."""
        del ahead_bytes
        assert 0 <= first <= last <= self.last_add_confirmed
        if self._is_reader_closed:
            raise ClosedError(f"the reader of archived segment {self._manifest.lssn} is closed")
        number = bisect_left(self._last_entry_ids, first)
        if number == len(self._locations):
            return self._empty_entries(first, last, self._end)
        location = self._locations[number]
        if first < location.first_entry_id:
            end = min(last, location.first_entry_id - 1)
            return self._empty_entries(first, end, location.before)
        rows = await self._row_group(number)
        return self._entries(rows, location.before, first, min(last, location.last_entry_id))

    async def update_last_add_confirmed(self, fresh: bool) -> int:
        """See ReadableLedger."""
        return self.last_add_confirmed

    async def wait(self, beyond: int, timeout_ms: int) -> Sequence[LedgerEntry]:
        """See ReadableLedger."""
        if beyond >= self.last_add_confirmed:
            return []
        return await self.read(beyond + 1, self.last_add_confirmed)

    async def aclose(self) -> None:
        """See ReadableLedger."""
        self._is_reader_closed = True
        self._current = None
        await self._drop_prefetched()

    # --- row groups -----------------------------------------------------------------------------

    async def _row_group(self, number: int) -> RecordColumns:
        if self._current is None or self._current[0] != number:
            is_sequential = self._current is not None and self._current[0] == number - 1
            self._current = number, await self._columns(number)
            if is_sequential or number == 0:
                self._prefetch_after(number)
        return self._current[1]

    async def _columns(self, number: int) -> RecordColumns:
        try:
            if self._prefetched and self._prefetched[0][0] == number:
                _, task = self._prefetched.popleft()
                return await task
            await self._drop_prefetched()
            return await self._read_columns(number)
        except NoSuchObjectError as error:
            raise self._missing_archive(error) from error

    def _prefetch_after(self, number: int) -> None:
        """Begin to read the row groups after ``number`` that are not being read yet."""
        first = number + 1 + len(self._prefetched)
        for following in range(first, min(number + 1 + _PREFETCHED_MAX, len(self._locations))):
            work = self._read_columns(following)
            task = asyncio.get_running_loop().create_task(work, name=f"row group {following}")
            task.add_done_callback(_retrieve_exception)
            self._prefetched.append((following, task))

    async def _read_columns(self, number: int) -> RecordColumns:
        location = self._locations[number]
        table = await self._files[location.part].read(location.group)
        return await asyncio.to_thread(
            RecordColumns, table, self._manifest.lssn, has_gaps=bool(self._manifest.erased)
        )

    async def _drop_prefetched(self) -> None:
        while self._prefetched:
            _, task = self._prefetched.popleft()
            task.cancel()
            await wait_until_done(task)

    def _missing_archive(self, error: RhumblineError) -> NoSuchLedgerError:
        return NoSuchLedgerError(
            f"the archive of segment {self._manifest.lssn} is incomplete: {error}"
        )

    def _segment_last_txid(self) -> int:
        return self._manifest.last_txid if self._manifest.record_count else 0

    # --- entries --------------------------------------------------------------------------------

    def _entries(
        self, rows: RecordColumns, before: _Before, first: int, last: int
    ) -> list[LedgerEntry]:
        number = rows.first_set(first)
        if number:
            previous = rows.sets[number - 1]
            before = _Before(before.records + previous.end, previous.last_txid, previous.created_ms)
        entries: list[LedgerEntry] = []
        size, entry_id = 0, first
        last = min(last, first + CHUNK_ENTRIES_MAX - 1)
        while entry_id <= last and size < CHUNK_BYTES_MAX:
            record_sets: list[RecordSet] = []
            slot = 0
            while number < len(rows.sets) and (stored := rows.sets[number]).entry_id == entry_id:
                record_sets += self._without_rows(entry_id, slot, stored.slot, before)
                position = self._position(entry_id, stored.slot, before)
                record_sets.append(rows.record_set(number, position))
                records = before.records + stored.end - stored.start
                before = _Before(records, stored.last_txid, stored.created_ms)
                slot, number = stored.slot + stored.end - stored.start, number + 1
            record_sets += self._without_rows(entry_id, slot, None, before)
            entries.append(self._entry(entry_id, record_sets, before))
            size, entry_id = size + size_of(entries[-1]), entry_id + 1
        return entries

    def _entry(
        self, entry_id: int, record_sets: Sequence[RecordSet], before: _Before
    ) -> DecodedEntry:
        return DecodedEntry(entry_id, record_sets or [self._control_record(entry_id, 0, before)])

    # --- entries and slots without rows ---------------------------------------------------------

    def _empty_entries(self, first: int, last: int, before: _Before) -> list[LedgerEntry]:
        """Return entries of which no record is stored."""
        return [
            self._entry(entry_id, self._without_rows(entry_id, 0, None, before), before)
            for entry_id in range(first, min(last, first + CHUNK_ENTRIES_MAX - 1) + 1)
        ]

    def _without_rows(
        self, entry_id: int, slot: int, end: int | None, before: _Before
    ) -> list[RecordSet]:
        """Return what fills the slots [slot, end) of an entry: erased and control records.

        If ``end`` is None, return what fills them up to the last erased record.
        """
        sets: list[RecordSet] = []
        ranges = self._erased.ranges_in(entry_id, slot, *(() if end is None else (end,)))
        for erased_from, erased_to in ranges:
            sets += self._control_records(entry_id, slot, erased_from, before)
            erased = encode_erased(
                erased_to - erased_from,
                txid=before.txid,
                position=self._position(entry_id, erased_from, before),
                created_ms=before.created_ms,
            )
            sets.append(_at_slot(erased, erased_from))
            slot = erased_to
        if end is not None:
            sets += self._control_records(entry_id, slot, end, before)
        return sets

    def _control_records(
        self, entry_id: int, slot: int, end: int, before: _Before
    ) -> list[RecordSet]:
        return [self._control_record(entry_id, number, before) for number in range(slot, end)]

    def _control_record(self, entry_id: int, slot: int, before: _Before) -> RecordSet:
        position = self._position(entry_id, slot, before)
        encoded = encode_control(Kind.FLUSH, txid=before.txid, position=position, created_ms=0)
        return _at_slot(encoded, slot)

    def _position(self, entry_id: int, slot: int, before: _Before) -> int:
        """Return the number of records before a slot, erased ones included."""
        return before.records + self._erased.before(entry_id, slot)


def _at_slot(encoded: bytes, slot: int) -> RecordSet:
    (record_set,) = decode_entry(encoded)
    record_set.slot = slot
    return record_set


def _retrieve_exception(task: "asyncio.Task[RecordColumns]") -> None:
    """Retrieve the exception of a prefetch, so that asyncio logs none if it is never awaited."""
    if not task.cancelled():
        task.exception()
