"""The live rows of a file: its entries that are not provably garbage, in the order of the file.

An entry is garbage if its ledger was deleted, or if the same file holds a later copy of it.
Both follow from verified bytes. The index is not asked: what it does not name may exist all the
same.
"""

import struct
from array import array
from typing import TYPE_CHECKING

from ...protocol.errors import CorruptionError, ForeignDataError
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
        data_file = storage.data_files.get(self._number)
        if data_file is None:
            return  # its header was damaged at the start
        file = await storage.files.open(self._kind, self._number)
        try:
            header = decode_file_header(await file.read(0, FILE_HEADER_BYTES), file.path)
        except (CorruptionError, ForeignDataError):
            return
        if (header.kind, header.number, header.generation) != data_file[:3]:
            return  # another file lies in its place

        async def parse(_: int) -> None:
            await self._parse_all(duty_cycle)

        scan = await scan_file(file, header, data_file.end, self._on_group, parse)
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
        rows = self.ledgers[ledger_id]
        if not self._storage.is_held(ledger_id):
            del self.ledgers[ledger_id]
            return
        last = -1
        for start in range(0, len(rows), ROWS_AT_ONCE):
            ids = rows.ids[start : start + ROWS_AT_ONCE]
            if ids[0] <= last or not is_ascending(ids):
                self.unordered.add(ledger_id)
                _keep_last_copies(rows)
                break
            last = ids[-1]
            await duty_cycle.pause()
        self.ledger_bytes[ledger_id] = sum(rows.lengths)


def _keep_last_copies(rows: LedgerEntries) -> None:
    """Drops the rows of ids that come again later."""
    last_rows = {entry_id: row for row, entry_id in enumerate(rows.ids)}
    if len(last_rows) < len(rows):
        kept = sorted(last_rows.values())
        rows.ids = array("q", [rows.ids[row] for row in kept])
        rows.positions = array("Q", [rows.positions[row] for row in kept])
        rows.lengths = array("I", [rows.lengths[row] for row in kept])


def is_ascending(ids: "array[int]") -> bool:
    """Return whether each id is above the one before it."""
    return ids.tolist() == sorted(set(ids))
