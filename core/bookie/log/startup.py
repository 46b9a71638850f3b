"""Opening of a storage: restores a consistent state in memory from the files on disk.

1. Read the headers. Each file names the previous one and its end. A log with a damaged header that
   no other file names was never used.
2. Replay the logs in order, from the first one whose entries the index does not cover: state
   records and entries. Each log begins with a snapshot of the state before it.
3. Find the sorted files that the manifest names. Their entries are read, oldest file first, only if
   the index must be rebuilt, and count only if no log has the same entry.

Unreadable data begins a limbo (limbo.py). Nothing on disk is changed here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from crc32c import crc32c

from ...protocol.bookie_id import BookieId
from ...protocol.errors import CorruptionError, ForeignDataError
from ...wire.entry import ENTRY_HEADER, ENTRY_HEADER_BYTES
from ..index.entry_index import IndexedEntry
from ..ledger_records import LedgerRecords
from .file_set import FileSet, file_path
from .log_file import LogFile
from .log_format import (
    FILE_HEADER_BYTES,
    FILE_NUMBER_MAX,
    GROUP_HEADER_BYTES,
    LOG_KIND,
    OFFSET_BITS,
    SORTED_KIND,
    FileHeader,
    decode_file_header,
    decode_group_header,
    iterate_records,
)
from .replay import Damage, FileScan, scan_file
from .sorted_file import SortedFile

OnEntries = Callable[[list[IndexedEntry]], None]


@dataclass(slots=True)
class OpenedFiles:
    """The result of opening the files. ``logs`` holds the numbers of the logs in use, rising."""

    states: LedgerRecords
    logs: list[int] = field(default_factory=list)
    sorted: dict[int, SortedFile] = field(default_factory=dict)
    last_log: LogFile | None = None
    """The newest log with its end, after which a new file continues."""
    unused_logs: list[int] = field(default_factory=list)
    """Logs whose creation was interrupted."""
    highest_number: int = 0
    damages: list[Damage] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    """Numbers of missing files; each is listed in ``damages`` too."""
    torn_bytes: int = 0

    def add_lost_file(self, number: int, end: int, reason: str) -> None:
        """Records a missing file as damage."""
        self.lost.append(number)
        self.damages.append(Damage(number, 0, end, reason))


@dataclass(slots=True)
class _Log:
    number: int
    header: FileHeader | None
    end: int | None = None
    crc: int | None = None


async def open_files(
    files: FileSet,
    bookie: BookieId,
    boot_id: str,
    covered_log: int,
    on_entries: OnEntries,
) -> OpenedFiles:
    """Replays the logs. Entries of logs below ``covered_log`` are in the index already.

    ``on_entries`` gets the rows of the other logs in order: the last row of an id counts. It may
    get rows twice. Raises ForeignDataError for files of another bookie or format, DiskFailedError.
    """
    opened = OpenedFiles(LedgerRecords())
    logs = await _find_logs(files, bookie, opened)
    first = _first_to_replay(logs, covered_log)
    while True:
        states = opened.states = LedgerRecords()
        opened.unused_logs.clear()
        damages = len(opened.damages)
        for log in logs[first:]:
            await _replay_log(files, log, opened, boot_id, covered_log, on_entries)
        if first == 0 or states.has_complete_snapshot:
            break
        del opened.damages[damages:]
        first -= 1  # the snapshot is unreadable, so the state comes from the log before it
    if states.sealed_for > max((log.number for log in logs), default=0):
        opened.add_lost_file(states.sealed_for, 0, f"log {states.sealed_for} is missing")
    _check_floor(opened, logs)
    await _find_sorted_files(files, opened, bookie)
    return opened


# --- logs ---------------------------------------------------------------------------------------


async def _find_logs(files: FileSet, bookie: BookieId, opened: OpenedFiles) -> list[_Log]:
    """Return the logs in order, each with its end according to the header of its successor."""
    numbers = await files.numbers(LOG_KIND)
    _raise_highest(opened, numbers)
    logs = [_Log(number, await _header(files, LOG_KIND, number, bookie)) for number in numbers]
    by_number = {log.number: log for log in logs}
    for header in [log.header for log in logs if log.header is not None]:
        previous = by_number.get(header.previous_number)
        if previous is not None:
            previous.end, previous.crc = header.previous_end, header.previous_crc
        elif header.previous_number > numbers[0]:
            opened.add_lost_file(
                header.previous_number, 0, f"log {header.previous_number} is missing"
            )
    return logs


async def _header(files: FileSet, kind: int, number: int, bookie: BookieId) -> FileHeader | None:
    """Return a file's header, None if it is damaged. Raises ForeignDataError."""
    path = file_path(kind, number)
    if not 0 < number <= FILE_NUMBER_MAX:
        raise ForeignDataError(
            f"{path}: file number {number} is not between 1 and {FILE_NUMBER_MAX}"
        )
    file = await files.open(kind, number)
    try:
        header = decode_file_header(await file.read(0, FILE_HEADER_BYTES), path)
    except CorruptionError:
        return None
    if header.bookie != bookie:
        raise ForeignDataError(f"{path} belongs to bookie {header.bookie}, not to {bookie}")
    return header if (header.kind, header.number) == (kind, number) else None


def _first_to_replay(logs: list[_Log], covered_log: int) -> int:
    """Return the index of the first log to read: the covered one, or an older one with a header."""
    first = max((i for i, log in enumerate(logs) if log.number <= covered_log), default=0)
    while first > 0 and logs[first].header is None:
        first -= 1
    return first


async def _replay_log(
    files: FileSet,
    log: _Log,
    opened: OpenedFiles,
    boot_id: str,
    covered_log: int,
    on_entries: OnEntries,
) -> None:
    states = opened.states
    if log.header is None:
        # A file was used only if the previous one names it (write_log, invariant 4).
        if log.end is None and states.sealed_for != log.number:
            opened.unused_logs.append(log.number)
        else:
            opened.damages.append(Damage(log.number, 0, 0, "the file's header is damaged"))
        return
    is_indexed = log.number >= covered_log

    def on_group(offset: int, body: bytes) -> None:
        base = log.number << OFFSET_BITS | offset
        rows = _read_group(states, body, base)
        if is_indexed and rows:
            on_entries(rows)

    file = await files.open(LOG_KIND, log.number)
    scan = await scan_file(file, log.header, log.end, on_group)
    opened.damages.extend(scan.damages)
    if log.end is not None and not scan.damages and scan.previous[1] != log.crc:
        reason = "its last group is not the one that the next file names"
        opened.damages.append(Damage(log.number, scan.end, scan.end, reason))
    if log.end is None:
        _classify_torn_end(opened, scan, log.number, boot_id)
    opened.last_log = LogFile(
        file,
        log.number,
        log.header.generation,
        end=scan.end,
        group_number=scan.group_number,
        previous=scan.previous,
    )


def _classify_torn_end(opened: OpenedFiles, scan: FileScan, number: int, boot_id: str) -> None:
    """Records a bad last group as damage if it may have been complete (see module replay)."""
    opened.torn_bytes = scan.torn_bytes
    known = opened.states.boot_id
    if not scan.torn_bytes or not boot_id or not known:
        return
    if known != boot_id:
        reason = "the operating system went down while the last group was written"
    elif not scan.is_cut_short:
        reason = "the last group was complete once and is damaged now"
    else:
        return
    opened.damages.append(Damage(number, scan.end, scan.end + scan.torn_bytes, reason))


def _read_group(states: LedgerRecords, body: bytes, base: int) -> list[IndexedEntry]:
    """Applies a group's state records and the LACs of its entries; returns the entries' rows."""
    rows: list[IndexedEntry] = []
    ledgers = states.ledgers
    unpack = ENTRY_HEADER.unpack_from
    for offset, data, is_state in iterate_records(body):
        if is_state:
            states.apply(data)
            continue
        if len(data) < ENTRY_HEADER_BYTES:
            raise CorruptionError(f"an entry of {len(data)} bytes is shorter than its header")
        ledger_id, entry_id, lac, _ = unpack(data)
        rows.append(IndexedEntry(ledger_id, entry_id, base + offset, len(data)))
        ledger = ledgers.get(ledger_id)
        if ledger is not None and lac > ledger.lac:
            ledger.lac = lac
    states.is_clean = states.is_clean and not rows
    return rows


def _check_floor(opened: OpenedFiles, logs: list[_Log]) -> None:
    """Drops logs below the manifest's floor, which are leftovers; the floor itself must exist."""
    floor = opened.states.manifest.log_floor
    used = [log.number for log in logs if log.number not in opened.unused_logs]
    opened.logs = [number for number in used if number >= floor]
    if floor and (not opened.logs or opened.logs[0] != floor):
        opened.add_lost_file(floor, 0, "the oldest log is missing")


# --- sorted files -------------------------------------------------------------------------------


async def _find_sorted_files(files: FileSet, opened: OpenedFiles, bookie: BookieId) -> None:
    """Finds the sorted files that the manifest names, and reads the first group of each."""
    numbers = await files.numbers(SORTED_KIND)
    _raise_highest(opened, numbers)
    for number, end in opened.states.manifest.sorted_files.items():
        if number not in numbers:
            opened.add_lost_file(number, end, "a sorted file is missing")
            continue
        header = await _header(files, SORTED_KIND, number, bookie)
        ledger_bytes: dict[int, int] | None = None
        if header is not None:
            ledger_bytes = await _read_ledger_bytes(files, number, header)
        if ledger_bytes is None:
            opened.damages.append(Damage(number, 0, end, "the head of a sorted file is damaged"))
        opened.sorted[number] = SortedFile(number, end, ledger_bytes or {})


async def _read_ledger_bytes(
    files: FileSet, number: int, header: FileHeader
) -> dict[int, int] | None:
    file = await files.open(SORTED_KIND, number)
    head = await file.read(FILE_HEADER_BYTES, GROUP_HEADER_BYTES)
    group = decode_group_header(head)
    if group is None or group.generation != header.generation:
        return None
    body = await file.read(FILE_HEADER_BYTES + GROUP_HEADER_BYTES, group.length)
    if len(body) != group.length or crc32c(body) != group.crc:
        return None
    states = LedgerRecords()
    _read_group(states, body, 0)
    return states.sorted_ledgers


async def replay_sorted(
    files: FileSet, bookie: BookieId, opened: OpenedFiles, on_entries: OnEntries
) -> None:
    """Passes the rows of the sorted files, oldest file first, to rebuild the index."""
    for number, known in opened.sorted.items():
        header = await _header(files, SORTED_KIND, number, bookie)
        if header is None:
            continue  # _find_sorted_files has reported it
        states = LedgerRecords()

        def on_group(
            offset: int, body: bytes, number: int = number, states: LedgerRecords = states
        ) -> None:
            on_entries(_read_group(states, body, number << OFFSET_BITS | offset))

        file = await files.open(SORTED_KIND, number)
        scan = await scan_file(file, header, known.end, on_group)
        opened.damages.extend(scan.damages)


def _raise_highest(opened: OpenedFiles, numbers: list[int]) -> None:
    opened.highest_number = max([opened.highest_number, *numbers])
