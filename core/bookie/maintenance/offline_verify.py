"""Offline verification: reads every byte of a storage and reports its ledgers and damage.

Verification changes nothing and needs no metadata store. The bookie must not be running, which the
lock on the directory ensures. The index is not verified: it is a cache that can be rebuilt.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.errors import CorruptionError, RhumblineError
from ...runtime.disk import Disk
from ...wire.entry import ENTRY_HEADER, ENTRY_HEADER_BYTES
from ..identity import Identity, read_identity
from ..index.entry_index import IndexedEntry, MemoryIndex, add_missing
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
from ..log.startup import OpenedFiles, open_files, replay_sorted
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
    """Reads all files and verifies every checksum.

    ``boot_id`` (see BookieConfig) distinguishes a bad last group from an unfinished one.
    ``on_progress`` is called regularly with the number of entries read. Raises ForeignDataError,
    CorruptionError (damaged identity, missing log), DiskFailedError.
    """
    identity = await read_identity(disk)
    files = FileSet(disk, 0)
    index, older = MemoryIndex(), MemoryIndex()
    count = 0

    def counted(rows: list[IndexedEntry], into: MemoryIndex) -> None:
        nonlocal count
        into.put(rows)
        count += len(rows)
        on_progress(count)

    bookie = identity.bookie_id
    try:
        opened = await open_files(files, bookie, boot_id, 0, lambda rows: counted(rows, index))
        if identity.was_opened and opened.last_log is None:
            raise CorruptionError(LOG_MISSING)
        await replay_sorted(files, bookie, opened, lambda rows: counted(rows, older))
    finally:
        await files.aclose()
    add_missing(index, older)
    return _summary(identity, opened, index)


def _summary(identity: Identity, opened: OpenedFiles, index: MemoryIndex) -> StorageSummary:
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
        opened.torn_bytes,
        tuple(opened.damages),
    )


async def dump_storage(disk: Disk, on_entry: Callable[[StoredEntry], None]) -> list[Damage]:
    """Calls ``on_entry`` for every entry in the files, in file order, including replaced ones.

    Returns the unreadable regions, including an unfinished end. Raises ForeignDataError,
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
