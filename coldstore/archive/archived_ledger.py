"""An archived segment with the face of its closed ledger, so that stream readers need not know.

Entries are made again from rows: the same ids, slots, txids, positions and payloads. Control
records were not archived; an empty one stands wherever one was. Extensions of record sets and their
compression are gone.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from ...core.log.ledger_interface import LedgerEntry
from ...core.protocol.errors import (
    ClosedError,
    CorruptionError,
    NoSuchLedgerError,
    NoSuchObjectError,
    RhumblineError,
)
from ...core.protocol.record_set import (
    NO_PRODUCER,
    NO_SEQUENCE,
    Kind,
    Producer,
    encode_control,
    encode_record_set,
)
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.tasks import settled
from .manifest import Manifest, segment_folder
from .part import ArchivedSet, archived_set, set_borders
from .part_file import PartFile

CHUNK_BYTES_MAX = 1 << 20
"""A read ends behind the entry with which its payloads reach this."""
CHUNK_ENTRIES_MAX = 1000


class ArchivedEntry(NamedTuple):
    """An entry made again."""

    entry_id: int
    payload: bytes


class _Rows(NamedTuple):
    """A row group in memory."""

    table: pa.Table
    borders: list[tuple[int, int]]
    """Rows of each record set."""
    entry_ids: list[int]
    """Entry of each record set."""
    position: int
    """Data records of the segment before it."""
    txid: int
    """Txid of the record before it; 0 if there is none."""


class _Place(NamedTuple):
    """A row group of the segment, before it is read."""

    part: int
    group: int
    first_entry_id: int
    last_entry_id: int
    position: int
    txid: int


class ArchivedLedger:
    """See LedgerReader. The row group behind the one that is read is fetched ahead."""

    def __init__(self, cold: ColdStore, manifest: Manifest, ledger_id: int) -> None:
        self.ledger_id = ledger_id
        self.last_add_confirmed = manifest.last_entry_id
        self.is_closed = True
        self._cold = cold
        self._manifest = manifest
        self._files: list[PartFile] = []
        self._places: list[_Place] = []
        self._last_entry_ids: list[int] = []  # of each place
        self._current: tuple[int, _Rows] | None = None
        self._ahead: tuple[int, asyncio.Task[pa.Table]] | None = None
        self._is_over = False

    async def open(self) -> "ArchivedLedger":
        """Reads the footers. Raises NoSuchLedgerError, CorruptionError, UnavailableError."""
        folder = segment_folder(
            self._manifest.namespace, self._manifest.stream, self._manifest.lssn
        )
        position = txid = 0
        for number, part in enumerate(self._manifest.parts):
            try:
                file = await PartFile.open(self._cold, f"{folder}/{part.name}", part.size_bytes)
            except NoSuchObjectError as error:
                raise self._gone(error) from error
            self._files.append(file)
            for index, group in enumerate(file.row_groups):
                self._places.append(
                    _Place(number, index, group.first_entry_id, group.last_entry_id, position, txid)
                )
                position, txid = position + group.record_count, group.last_txid
        self._last_entry_ids = [place.last_entry_id for place in self._places]
        if position != self._manifest.record_count:
            raise CorruptionError(f"{folder}: {position} records, its manifest says otherwise")
        return self

    async def read(self, first: int, last: int) -> Sequence[LedgerEntry]:
        """See LedgerReader."""
        assert 0 <= first <= last <= self.last_add_confirmed
        if self._is_over:
            raise ClosedError("the reader of an archived segment was closed")
        number = bisect_left(self._last_entry_ids, first)
        if number == len(self._places):
            return _controls(first, last, self._manifest.record_count, self._last_txid())
        place = self._places[number]
        if first < place.first_entry_id:
            end = min(last, place.first_entry_id - 1)
            return _controls(first, end, place.position, place.txid)
        rows = await self._rows(number)
        return self._entries(rows, first, min(last, place.last_entry_id))

    async def update_last_add_confirmed(self, fresh: bool) -> int:
        """See LedgerReader."""
        return self.last_add_confirmed

    async def wait(self, beyond: int, timeout_ms: int) -> Sequence[LedgerEntry]:
        """See LedgerReader."""
        if beyond >= self.last_add_confirmed:
            return []
        return await self.read(beyond + 1, self.last_add_confirmed)

    async def aclose(self) -> None:
        """See LedgerReader."""
        self._is_over = True
        self._current = None
        if self._ahead is not None:
            (_, task), self._ahead = self._ahead, None
            task.cancel()
            await settled(task)

    # --- row groups -----------------------------------------------------------------------------

    async def _rows(self, number: int) -> _Rows:
        if self._current is None or self._current[0] != number:
            is_next = self._current is not None and self._current[0] == number - 1
            table = await self._table(number)
            self._current = number, _rows_of(table, self._places[number])
            if (is_next or number == 0) and number + 1 < len(self._places):
                self._fetch_ahead(number + 1)
        return self._current[1]

    async def _table(self, number: int) -> "pa.Table":
        place = self._places[number]
        try:
            if self._ahead is not None:
                (ahead, task), self._ahead = self._ahead, None
                if ahead == number:
                    return await task
                task.cancel()
                await settled(task)
            return await self._files[place.part].read(place.group)
        except NoSuchObjectError as error:
            raise self._gone(error) from error

    def _fetch_ahead(self, number: int) -> None:
        place = self._places[number]
        work = self._files[place.part].read(place.group)
        task = asyncio.get_running_loop().create_task(work, name=f"row group {number}")
        task.add_done_callback(_seen)
        self._ahead = number, task

    def _gone(self, error: RhumblineError) -> NoSuchLedgerError:
        return NoSuchLedgerError(f"the archive of segment {self._manifest.lssn}: {error}")

    def _last_txid(self) -> int:
        return self._manifest.last_txid if self._manifest.record_count else 0

    # --- entries --------------------------------------------------------------------------------

    def _entries(self, rows: _Rows, first: int, last: int) -> list[LedgerEntry]:
        number = bisect_left(rows.entry_ids, first)
        if number == 0:
            position, txid = rows.position, rows.txid
        else:
            before = rows.borders[number - 1][1]
            position, txid = rows.position + before, rows.table.column("txid")[before - 1].as_py()
        entries: list[LedgerEntry] = []
        size, entry_id = 0, first
        last = min(last, first + CHUNK_ENTRIES_MAX - 1)
        while entry_id <= last and size < CHUNK_BYTES_MAX:
            sets: list[bytes] = []
            slot = 0
            while number < len(rows.borders) and rows.entry_ids[number] == entry_id:
                start, end = rows.borders[number]
                one = archived_set(rows.table, start, end, self._manifest.lssn)
                for _ in range(one.slot - slot):
                    sets.append(_control(position, txid))
                sets.append(
                    encode_record_set(
                        one.payloads,
                        first_txid=one.txids[0],
                        last_txid=one.txids[-1],
                        txids=one.txids,
                        position=position,
                        created_ms=one.created_ms,
                        producer=_producer(one),
                    )
                )
                position, txid = position + end - start, one.txids[-1]
                slot, number = one.slot + end - start, number + 1
            payload = b"".join(sets) or _control(position, txid)
            entries.append(ArchivedEntry(entry_id, payload))
            size, entry_id = size + len(payload), entry_id + 1
        return entries


def _rows_of(table: "pa.Table", place: _Place) -> _Rows:
    borders = set_borders(table)
    column = table.column("entry_id")
    entry_ids = column.take(pa.array([start for start, _ in borders], pa.int64())).to_pylist()
    return _Rows(table, borders, entry_ids, place.position, place.txid)


def _producer(one: ArchivedSet) -> Producer:
    if one.producer is None or one.first_sequence is None:
        return Producer(NO_PRODUCER, NO_SEQUENCE)
    return Producer(one.producer, one.first_sequence)


def _control(position: int, txid: int) -> bytes:
    return encode_control(Kind.FLUSH, txid=txid, position=position, created_ms=0)


def _controls(first: int, last: int, position: int, txid: int) -> list[LedgerEntry]:
    payload = _control(position, txid)
    last = min(last, first + CHUNK_ENTRIES_MAX - 1)
    return [ArchivedEntry(entry_id, payload) for entry_id in range(first, last + 1)]


def _seen(task: "asyncio.Task[pa.Table]") -> None:
    """A failed fetch ahead is raised to who needs it; nobody may need it."""
    if not task.cancelled():
        task.exception()
