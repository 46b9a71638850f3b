"""The live rows of a file: the entries to which the index points, in the order of the file."""

import struct
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...protocol.errors import CorruptionError
from ..index.ledger_entries import LedgerEntries
from ..log.log_format import (
    FILE_HEADER_BYTES,
    GROUP_HEADER_BYTES,
    OFFSET_BITS,
    RECORD_HEADER_BYTES,
    STATE_BIT,
    decode_file_header,
)
from ..log.replay import scan_file
from .duty_cycle import DutyCycle

if TYPE_CHECKING:
    from ..storage import Storage

ROWS_AT_ONCE = 1_000
"""Rows of one slice of work, which takes at most about a millisecond."""

_RECORD = struct.Struct(">IIqq")
"""A record header, and the ledger id and entry id at the beginning of an entry."""

_GAP_FACTOR_MAX = 16
"""Ids per row above which rows are looked up one by one, since the id range has many gaps."""


class LiveRows:
    """Live rows by ledger, filled by ``read``; the rows are in file order, not in id order."""

    def __init__(self, storage: "Storage", kind: int, number: int, slice_bytes: int) -> None:
        self._storage = storage
        self._kind = kind
        self._number = number
        self._slice_bytes = slice_bytes
        self._unread: list[tuple[int, bytes]] = []
        self.ledgers: dict[int, LedgerEntries] = {}
        self.ledger_bytes: dict[int, int] = {}
        self.slices: list[tuple[int, int]] = []
        """Regions (start, end) of good groups, each as long as the slice size permits."""
        self.is_whole = False
        self.unordered: set[int] = set()
        """Ledgers whose entry ids are not in rising order in the file."""

    async def read(self, duty_cycle: DutyCycle) -> None:
        """Reads the file to its end. Raises DiskFailedError."""
        storage = self._storage
        file = await storage.files.open(self._kind, self._number)
        try:
            header = decode_file_header(await file.read(0, FILE_HEADER_BYTES), file.path)
        except CorruptionError:
            return

        async def parse(_: int) -> None:
            await self._parse_all(duty_cycle)

        scan = await scan_file(file, header, await file.size(), self._on_group, parse)
        await self._parse_all(duty_cycle)
        self.is_whole = not scan.damages
        for ledger_id in list(self.ledgers):
            await self._keep_live(ledger_id, duty_cycle)

    def _on_group(self, offset: int, body: bytes) -> None:
        start, end = offset - GROUP_HEADER_BYTES, offset + len(body)
        if self.slices:
            first, last = self.slices[-1]
            if last == start and end - first <= self._slice_bytes:
                self.slices.pop()
                start = first
        self.slices.append((start, end))
        self._unread.append((offset, body))

    async def _parse_all(self, duty_cycle: DutyCycle) -> None:
        for offset, body in self._unread:
            at = 0
            while at < len(body):
                at = self._parse(self._number << OFFSET_BITS | offset, body, at)
                await duty_cycle.pause()
        self._unread.clear()

    def _parse(self, base: int, body: bytes, at: int) -> int:
        """Records the entries of some records from ``at`` on; returns the offset of the next."""
        unpack, end = _RECORD.unpack_from, len(body)
        current: int | None = None
        for _ in range(ROWS_AT_ONCE):
            if at + _RECORD.size > end:
                return end  # too short for an entry
            size, _, ledger_id, entry_id = unpack(body, at)
            at += RECORD_HEADER_BYTES
            if size >= STATE_BIT:
                at += size - STATE_BIT
                continue
            if ledger_id != current:
                current = ledger_id
                rows = self.ledgers.get(ledger_id)
                if rows is None:
                    rows = self.ledgers[ledger_id] = LedgerEntries()
                add_id = rows.ids.append
                add_position = rows.positions.append
                add_length = rows.lengths.append
            add_id(entry_id)
            add_position(base + at)
            add_length(size)
            at += size
        return at

    async def _keep_live(self, ledger_id: int, duty_cycle: DutyCycle) -> None:
        """Drops the rows of a ledger to which the index does not point."""
        rows = self.ledgers[ledger_id]
        live, size = LedgerEntries(), 0
        for part in _parts(rows):
            if not self._storage.is_held(ledger_id):
                break
            part = self._live_of(ledger_id, part)
            if part and not (is_ascending(part.ids) and part.ids[0] > live.last):
                self.unordered.add(ledger_id)
            live.last = max(live.last, max(part.ids, default=-1))
            live.ids += part.ids
            live.positions += part.positions
            live.lengths += part.lengths
            size += sum(part.lengths)
            await duty_cycle.pause()
        if live:
            self.ledgers[ledger_id], self.ledger_bytes[ledger_id] = live, size
        else:
            del self.ledgers[ledger_id]

    def _live_of(self, ledger_id: int, rows: LedgerEntries) -> LedgerEntries:
        index = self._storage.index
        first, last = min(rows.ids), max(rows.ids)
        if last - first < len(rows) * _GAP_FACTOR_MAX:
            known = index.span(ledger_id, first, last)
            if known.ids == rows.ids and known.positions == rows.positions:
                return rows
        live = LedgerEntries()
        for row in zip(rows.ids, rows.positions, rows.lengths, strict=True):
            found = index.find(ledger_id, row[0])
            if found is not None and found.position == row[1]:
                live.ids.append(row[0])
                live.positions.append(row[1])
                live.lengths.append(row[2])
        return live


def _parts(rows: LedgerEntries) -> Iterator[LedgerEntries]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows.part(start, start + ROWS_AT_ONCE)


def is_ascending(ids: "array[int]") -> bool:
    """Return whether the ids, which do not repeat, are in rising order."""
    return ids.tolist() == sorted(ids)
