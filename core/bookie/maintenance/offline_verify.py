"""Offline verification: reads every byte of a storage and reports its ledgers and damage.

Verification changes nothing and needs no metadata store. The bookie must not be running, which the
lock on the directory ensures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.bookie_id import BookieId
from ...protocol.errors import CorruptionError, RhumblineError
from ...runtime.disk import Disk
from ...wire.entry import ENTRY_HEADER, ENTRY_HEADER_BYTES
from ..identity import Identity, read_identity
from ..index.entry_index import MemoryIndex
from ..index.index_directory import IndexDirectory, index_path
from ..index.ledger_entries import LedgerEntries
from ..log.file_rows import read_rows
from ..log.file_set import FileSet
from ..log.log_format import (
    FILE_HEADER_BYTES,
    LOG_KIND,
    OFFSET_MASK,
    SORTED_KIND,
    decode_file_header,
    iterate_records,
)
from ..log.replay import Damage, scan_file
from ..start.index_reconciliation import adopt_sorted_files
from ..start.startup import OpenedFiles, open_files, read_header
from ..storage import LOG_MISSING


@dataclass(frozen=True, slots=True)
class LedgerSummary:
    """The contents of one ledger in a storage."""

    ledger_id: int
    entry_count: int
    entry_bytes: int
    last_entry_id: int
    lac: int
    is_fenced: bool
    is_in_limbo: bool


@dataclass(frozen=True, slots=True)
class StorageSummary:
    """The contents of a storage. ``torn_bytes``, the unfinished end of the log, is not damage."""

    identity: Identity
    ledgers: tuple[LedgerSummary, ...]
    entry_count: int
    entry_bytes: int
    log_count: int
    sorted_file_count: int
    index_file_count: int
    torn_bytes: int
    damages: tuple[Damage, ...]


class StoredEntry(NamedTuple):
    """The header of one entry, and its location."""

    kind: int
    number: int
    offset: int
    ledger_id: int
    entry_id: int
    lac: int
    length: int
    size: int


def _ignore(_: int) -> None:
    pass


async def verify_storage(
    disk: Disk, boot_id: str = "", on_progress: Callable[[int], None] = _ignore
) -> StorageSummary:
    """Reads all files and verifies every checksum, and each index file against its data file.

    ``boot_id`` (see BookieConfig) distinguishes a bad last group from an unfinished one.
    ``on_progress`` is called regularly with the number of entries read. Raises ForeignDataError,
    CorruptionError (damaged identity, missing log), DiskFailedError.
    """
    identity = await read_identity(disk)
    bookie = identity.bookie_id
    files, directory = FileSet(disk, 0), IndexDirectory(disk, bookie)
    index = MemoryIndex()
    count = index_count = 0
    try:
        opened = await open_files(files, bookie, boot_id, was_used=identity.was_opened)
        if identity.was_opened and opened.last_log is None:
            raise CorruptionError(LOG_MISSING)
        if opened.damages:
            await adopt_sorted_files(files, directory, bookie, opened)
        for number in (*opened.sorted, *opened.logs):
            rows = await _rows_of(files, bookie, opened, number)
            index_count += await _verify_index(directory, opened, number, rows)
            index.update(rows.columns())
            count += rows.row_count
            on_progress(count)
    finally:
        await files.aclose()
    return _summary(identity, opened, index, index_count)


async def _rows_of(
    files: FileSet, bookie: BookieId, opened: OpenedFiles, number: int
) -> MemoryIndex:
    """Return the rows of a data file, and records its damage unless the replay has."""
    data_file = opened.data_files[number]
    if number in opened.rows:
        return opened.rows[number]
    header = None
    if data_file is not None:
        header = await read_header(files, data_file.kind, number, bookie)
    if data_file is None or header is None:
        return MemoryIndex()
    rows, scan = await read_rows(files, header, data_file.end)
    opened.damages.extend(scan.damages)
    return rows


async def _verify_index(
    directory: IndexDirectory, opened: OpenedFiles, number: int, rows: MemoryIndex
) -> bool:
    """Compares an index file with its data file; returns False if there is no index file.

    A missing index file is not damage: a start rebuilds it, as it does with a damaged one.
    """
    if number not in await directory.numbers():
        return False
    kind = LOG_KIND if number in opened.logs else SORTED_KIND
    is_whole = all(damage.number != number for damage in opened.damages)
    reason = "the index file is damaged"
    found = await directory.read(kind, number)
    if found is not None:
        file, _ = found
        try:
            columns = await file.columns()
        except RhumblineError as error:
            reason = str(error)
        else:
            if file.data_file != opened.data_files[number]:
                reason = "the index file describes another data file"
            elif not is_whole or _are_same(columns, list(rows.columns())):
                reason = ""
            else:
                reason = "the index file does not name the entries of its data file"
        finally:
            await file.file.close()
    if reason:
        opened.add_damage(number, 0, 0, f"{index_path(number)}: {reason}")
    return True


def _are_same(
    columns: list[tuple[int, LedgerEntries]], others: list[tuple[int, LedgerEntries]]
) -> bool:
    return len(columns) == len(others) and all(
        ledger_id == other_id
        and (rows.ids, rows.positions, rows.lengths) == (other.ids, other.positions, other.lengths)
        for (ledger_id, rows), (other_id, other) in zip(columns, others, strict=True)
    )


def _summary(
    identity: Identity, opened: OpenedFiles, index: MemoryIndex, index_count: int
) -> StorageSummary:
    states = opened.states
    held: dict[int, tuple[int, int]] = {}
    for row in index.rows():
        count, size = held.get(row.ledger_id, (0, 0))
        held[row.ledger_id] = count + 1, size + row.length
    ledgers = tuple(
        LedgerSummary(
            ledger_id,
            *held.get(ledger_id, (0, 0)),
            -1 if (last := index.last(ledger_id)) is None else last,
            ledger.lac,
            ledger.is_fenced,
            states.limbo.covers(ledger_id),
        )
        for ledger_id, ledger in sorted(states.ledgers.items())
    )
    return StorageSummary(
        identity,
        ledgers,
        sum(ledger.entry_count for ledger in ledgers),
        sum(ledger.entry_bytes for ledger in ledgers),
        len(opened.logs),
        len(opened.sorted),
        index_count,
        opened.torn_bytes,
        tuple(opened.damages),
    )


async def dump_storage(disk: Disk, on_entry: Callable[[StoredEntry], None]) -> list[Damage]:
    """Calls ``on_entry`` for every entry in the files, in file order, including replaced ones.

    Returns the unreadable parts, including an unfinished end. Raises ForeignDataError,
    CorruptionError (damaged identity), DiskFailedError.
    """
    await read_identity(disk)
    files = FileSet(disk, 0)
    damages: list[Damage] = []
    try:
        for kind in (LOG_KIND, SORTED_KIND):
            for number in await files.numbers(kind):
                damages += await _dump_file(files, kind, number, on_entry)
    finally:
        await files.aclose()
    return damages


async def _dump_file(
    files: FileSet, kind: int, number: int, on_entry: Callable[[StoredEntry], None]
) -> list[Damage]:
    def on_group(start: int, body: bytes) -> None:
        for offset, data, is_state in iterate_records(body):
            if not is_state and len(data) >= ENTRY_HEADER_BYTES:
                ledger_id, entry_id, lac, length = ENTRY_HEADER.unpack_from(data)
                at = start + offset
                on_entry(StoredEntry(kind, number, at, ledger_id, entry_id, lac, length, len(data)))

    file = await files.open(kind, number)
    try:
        header = decode_file_header(await file.read(0, FILE_HEADER_BYTES), file.path)
        scan = await scan_file(file, header, None, on_group)
    except RhumblineError as error:
        return [Damage(number, 0, OFFSET_MASK, str(error))]
    if scan.torn_bytes:
        end = scan.end + scan.torn_bytes
        scan.damages.append(Damage(number, scan.end, end, "the last group is unfinished or bad"))
    return scan.damages
