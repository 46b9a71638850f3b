"""Reads the index rows of a data file from its checksummed groups."""

import struct
from collections.abc import Awaitable, Callable

from ...protocol.errors import CorruptionError
from ...wire.entry import ENTRY_HEADER_BYTES
from ..index.entry_index import MemoryIndex
from ..index.ledger_entries import LedgerEntries
from ..ledger_records import LedgerRecords
from .file_set import FileSet
from .log_format import OFFSET_BITS, RECORD_HEADER_BYTES, STATE_BIT, FileHeader
from .replay import FileScan, scan_file, yield_to_loop

_ENTRY = struct.Struct(">IIqqq")
"""A record header, and the ledger id, entry id and LAC at the beginning of an entry."""

_LENGTH = struct.Struct(">I")


def read_group(
    number: int, offset: int, body: bytes, rows: MemoryIndex, states: LedgerRecords | None = None
) -> int:
    """Adds the rows of a group whose body is at ``offset``; returns the number of its entries.

    Applies the state records and the LACs of the entries to ``states``, in order. Raises
    CorruptionError if the records do not fill the body, or a record is malformed.
    """
    base = number << OFFSET_BITS | offset
    at, end, count = 0, len(body), 0
    current: int | None = None
    entries: LedgerEntries | None = None
    ledgers = {} if states is None else states.ledgers
    while at < end:
        start = at + RECORD_HEADER_BYTES
        size = _LENGTH.unpack_from(body, at)[0] if start <= end else 0
        at = start + (size & ~STATE_BIT)
        if start > end or at > end:
            raise CorruptionError(f"file {number}: a record is truncated at byte {offset + end}")
        if size >= STATE_BIT:
            if states is not None:
                states.apply(body[start:at])
            continue
        if size < ENTRY_HEADER_BYTES:
            raise CorruptionError(
                f"file {number}, byte {offset + start}: an entry of {size} bytes is shorter than "
                f"its header"
            )
        _, _, ledger_id, entry_id, lac = _ENTRY.unpack_from(body, start - RECORD_HEADER_BYTES)
        if ledger_id != current or entries is None:
            current, entries = ledger_id, rows.entries_of(ledger_id)
        entries.put(entry_id, base + start, size)
        count += 1
        ledger = ledgers.get(ledger_id)
        if ledger is not None and lac > ledger.lac:
            ledger.lac = lac
    if states is not None and count:
        states.is_clean = False
    return count


async def read_rows(
    files: FileSet,
    header: FileHeader,
    end: int,
    throttle: Callable[[int], Awaitable[None]] = yield_to_loop,
) -> tuple[MemoryIndex, FileScan]:
    """Scan a data file to its known end. Raises CorruptionError, DiskFailedError, FileGoneError."""
    rows = MemoryIndex()

    def on_group(offset: int, body: bytes) -> None:
        read_group(header.number, offset, body, rows)

    file = await files.open(header.kind, header.number)
    return rows, await scan_file(file, header, end, on_group, throttle)
