"""Opening of a storage: restores a consistent state in memory from the files on disk.

1. Read the headers. Each log file names the previous one and its end.
2. Replay the newest log, which begins with a snapshot of all state, and with it older logs if that
   snapshot is incomplete. Only these logs are read; the rows of others come from index files.
3. Compare the end of the newest log with the evidence for it (rule BKE-15): the seal of the log
   before it, the snapshot that every used log begins with, and the end marker (end_marker.py).
4. Find the sorted files that the manifest names.

Unreadable or missing data puts ledgers into limbo (limbo.py). Nothing on disk is changed here.
"""

from dataclasses import dataclass, field

from crc32c import crc32c

from ...protocol.bookie_id import BookieId
from ...protocol.errors import CorruptionError, ForeignDataError
from ...runtime.disk import File
from ..index.entry_index import MemoryIndex
from ..index.index_file import DataFile
from ..ledger_records import LedgerBytes, LedgerRecords
from ..log.end_marker import LogEnd, find_end_marker
from ..log.file_rows import read_group
from ..log.file_set import FileSet, file_path
from ..log.log_file import LogFile
from ..log.log_format import (
    FILE_HEADER_BYTES,
    FILE_NUMBER_MAX,
    GROUP_HEADER_BYTES,
    LOG_KIND,
    SORTED_KIND,
    FileHeader,
    decode_file_header,
    decode_group_header,
)
from ..log.replay import Damage, FileScan, scan_file
from ..log.sorted_file import SortedFile


@dataclass(slots=True)
class OpenedFiles:
    """The result of opening the files. ``logs`` holds the numbers of the logs in use, rising."""

    states: LedgerRecords
    logs: list[int] = field(default_factory=list)
    sorted: dict[int, SortedFile] = field(default_factory=dict)
    """Sorted files in use by number; those with older entries come first."""
    data_files: dict[int, DataFile | None] = field(default_factory=dict)
    """Files in use by number; None if the header is damaged."""
    rows: dict[int, MemoryIndex] = field(default_factory=dict)
    """Rows of the logs that were replayed."""
    last_log: LogFile | None = None
    """The newest log with its end, after which a new file continues."""
    unused_logs: list[int] = field(default_factory=list)
    """Logs whose creation was interrupted."""
    leftover_logs: list[int] = field(default_factory=list)
    """All logs that are not in use."""
    missing_logs: list[int] = field(default_factory=list)
    """Logs that a header names and that do not exist."""
    highest_number: int = 0
    damages: list[Damage] = field(default_factory=list)
    torn_bytes: int = 0

    @property
    def is_orderly(self) -> bool:
        """True if nothing is known to be damaged: what nothing names is a leftover."""
        return not self.damages and not self.states.limbo.is_active

    def add_damage(self, number: int, start: int, end: int, reason: str) -> None:
        """Records a damaged part of a file, or a missing file (``start`` 0)."""
        self.damages.append(Damage(number, start, end, reason))


@dataclass(slots=True)
class _Log:
    number: int
    header: FileHeader | None
    end: int | None = None
    """The end that the next log's header names."""
    crc: int | None = None
    has_snapshot: bool = False
    scan: FileScan | None = None


async def open_files(
    files: FileSet, bookie: BookieId, boot_id: str, *, was_used: bool
) -> OpenedFiles:
    """Replays the newest logs and finds the other files in use.

    ``was_used`` means that the storage has been opened before. Raises ForeignDataError for files of
    another bookie or format, CorruptionError, DiskFailedError.
    """
    opened = OpenedFiles(LedgerRecords())
    logs = await _find_logs(files, bookie, opened)
    marker, is_lost = await find_end_marker(files.disk, bookie)
    first = _first_to_replay(logs)
    while True:
        states = opened.states = LedgerRecords()
        opened.unused_logs.clear()
        opened.rows.clear()
        damages = len(opened.damages)
        for log in logs[first:]:
            await _replay_log(files, log, opened, marker)
        if first == 0 or states.has_complete_snapshot:
            break
        del opened.damages[damages:]
        first -= 1  # the snapshot is unreadable, so the state comes from the log before it
    if logs:
        _check_newest(opened, logs, marker, boot_id, was_used=was_used, is_lost=is_lost)
    _check_floor(opened, logs)
    await _find_ends(files, opened, logs)
    await _find_sorted_files(files, opened, bookie)
    return opened


# --- logs ---------------------------------------------------------------------------------------


async def _find_logs(files: FileSet, bookie: BookieId, opened: OpenedFiles) -> list[_Log]:
    """Return the logs in order, each with its end according to the header of its successor."""
    numbers = await files.numbers(LOG_KIND)
    _raise_highest(opened, numbers)
    logs = [_Log(number, await read_header(files, LOG_KIND, number, bookie)) for number in numbers]
    by_number = {log.number: log for log in logs}
    for header in [log.header for log in logs if log.header is not None]:
        previous = by_number.get(header.previous_number)
        if previous is not None:
            previous.end, previous.crc = header.previous_end, header.previous_crc
        elif header.previous_number > numbers[0]:
            opened.missing_logs.append(header.previous_number)
    return logs


async def read_header(
    files: FileSet, kind: int, number: int, bookie: BookieId
) -> FileHeader | None:
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


def _first_to_replay(logs: list[_Log]) -> int:
    """Return the index of the newest log with a header, 0 if there is none."""
    first = max(len(logs) - 1, 0)
    while first > 0 and logs[first].header is None:
        first -= 1
    return first


async def _replay_log(
    files: FileSet, log: _Log, opened: OpenedFiles, marker: LogEnd | None
) -> None:
    states = opened.states
    if log.header is None:
        # A file was used only if the previous one or the marker names it (write_log, invariant 4).
        is_marked = marker is not None and marker.number == log.number
        if log.end is None and states.sealed_for != log.number and not is_marked:
            opened.unused_logs.append(log.number)
        else:
            opened.add_damage(log.number, 0, 0, "the file's header is damaged")
        return
    rows = opened.rows[log.number] = MemoryIndex()
    had_snapshot, states.has_complete_snapshot = states.has_complete_snapshot, False

    def on_group(offset: int, body: bytes) -> None:
        read_group(log.number, offset, body, rows, states)

    file = await files.open(LOG_KIND, log.number)
    scan = log.scan = await scan_file(file, log.header, log.end, on_group)
    log.has_snapshot = states.has_complete_snapshot
    states.has_complete_snapshot |= had_snapshot
    opened.damages.extend(scan.damages)
    if log.end is not None and not scan.damages and scan.previous[1] != log.crc:
        reason = "its last group is not the one that the next file names"
        opened.add_damage(log.number, scan.end, scan.end, reason)
    if log.end is not None and not scan.damages:
        await _read_seal(file, log.header, scan, states)
    opened.last_log = LogFile(
        file,
        log.number,
        log.header.generation,
        end=scan.end,
        group_number=scan.group_number,
        previous=scan.previous,
    )


async def _read_seal(file: File, header: FileHeader, scan: FileScan, states: LedgerRecords) -> None:
    """Applies the seal, which lies after the end that the next file's header names, if any."""
    head = decode_group_header(await file.read(scan.end, GROUP_HEADER_BYTES))
    if head is not None and (head.generation, head.number) == (
        header.generation,
        scan.group_number,
    ):
        start = scan.end + GROUP_HEADER_BYTES
        body = await file.read(start, head.length)
        if len(body) == head.length and crc32c(body) == head.crc:
            read_group(header.number, start, body, MemoryIndex(), states)


def _check_newest(
    opened: OpenedFiles,
    logs: list[_Log],
    marker: LogEnd | None,
    boot_id: str,
    *,
    was_used: bool,
    is_lost: bool,
) -> None:
    """Records as damage what the newest log must have had and has no more.

    ``is_lost`` means that no crash explains the state of the marker.
    """
    marked = 0 if marker is None else marker.number
    named = max(opened.states.sealed_for, marked)
    if named > logs[-1].number:
        opened.add_damage(named, 0, 0, f"log {named} is missing")
    log = next((log for log in reversed(logs) if log.scan is not None), None)
    if log is None or log.scan is None or log.end is not None:
        return
    scan, number = log.scan, log.number
    is_same_boot = bool(boot_id) and opened.states.boot_id == boot_id
    is_torn = marker is None and is_same_boot
    if was_used and (is_lost or is_torn) and not opened.states.is_clean:
        # Killing a process tears at most one of the two slots, so this was not a kill alone.
        reason = "the end marker is damaged or missing, so the log may have lost its end"
        opened.add_damage(number, scan.end, scan.end, reason)
    if marker is not None and marked == number and log.header is not None:
        if marker.generation != log.header.generation:
            opened.add_damage(number, 0, scan.end, "another log file was used under this number")
        elif marker.end > scan.end:
            reason = "acknowledged groups at its end are missing"
            opened.add_damage(number, scan.end, marker.end, reason)
            return
    if not log.has_snapshot and (named >= number or (was_used and log is logs[0])):
        reason = "the snapshot at the beginning of the log is missing"
        opened.add_damage(number, scan.end, scan.end, reason)
    _classify_torn_end(opened, scan, number, boot_id)


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
    opened.add_damage(number, scan.end, scan.end + scan.torn_bytes, reason)


def _check_floor(opened: OpenedFiles, logs: list[_Log]) -> None:
    """Drops logs below the manifest's floor, which are leftovers; the floor itself must exist."""
    floor = opened.states.manifest.log_floor
    used = [log.number for log in logs if log.number not in opened.unused_logs]
    opened.logs = [number for number in used if number >= floor]
    opened.leftover_logs = [log.number for log in logs if log.number not in opened.logs]
    for number in opened.missing_logs:
        if number >= floor:
            opened.add_damage(number, 0, 0, f"log {number} is missing")
    if floor and (not opened.logs or opened.logs[0] != floor):
        opened.add_damage(floor, 0, 0, "the oldest log is missing")


async def _find_ends(files: FileSet, opened: OpenedFiles, logs: list[_Log]) -> None:
    """Records which part of each log in use has entries."""
    for log in logs:
        if log.number not in opened.logs:
            opened.rows.pop(log.number, None)
            continue
        found: DataFile | None = None
        if log.header is not None:
            end = log.end
            if end is None and log.scan is not None:
                end = log.scan.end
            elif end is None:  # the header of the next file is damaged
                end = await (await files.open(LOG_KIND, log.number)).size()
            found = DataFile(LOG_KIND, log.number, log.header.generation, end)
        opened.data_files[log.number] = found


# --- sorted files -------------------------------------------------------------------------------


async def _find_sorted_files(files: FileSet, opened: OpenedFiles, bookie: BookieId) -> None:
    """Finds the sorted files that the manifest names, and reads the first group of each."""
    numbers = await files.numbers(SORTED_KIND)
    _raise_highest(opened, numbers)
    for number, end in opened.states.manifest.sorted_files.items():
        if number not in numbers:
            opened.add_damage(number, 0, end, "a sorted file is missing")
            continue
        header = await read_header(files, SORTED_KIND, number, bookie)
        generation = 0 if header is None else header.generation
        found = None if header is None else await read_ledger_bytes(files, number, generation)
        if found is None:
            opened.add_damage(number, 0, end, "the head of a sorted file is damaged")
        age = len(opened.sorted) + 1
        entry_bytes = 0 if found is None else sum(found.sizes)
        opened.sorted[number] = SortedFile(number, end, entry_bytes, age)
        opened.data_files[number] = (
            None if header is None else DataFile(SORTED_KIND, number, header.generation, end)
        )


async def read_ledger_bytes(files: FileSet, number: int, generation: int) -> LedgerBytes | None:
    """Return the bytes of each ledger in a sorted file, None if its first group is damaged."""
    file = await files.open(SORTED_KIND, number)
    group = decode_group_header(await file.read(FILE_HEADER_BYTES, GROUP_HEADER_BYTES))
    if group is None or group.generation != generation:
        return None
    body = await file.read(FILE_HEADER_BYTES + GROUP_HEADER_BYTES, group.length)
    if len(body) != group.length or crc32c(body) != group.crc:
        return None
    states = LedgerRecords()
    read_group(number, 0, body, MemoryIndex(), states)
    return states.sorted_ledgers


def _raise_highest(opened: OpenedFiles, numbers: list[int]) -> None:
    opened.highest_number = max([opened.highest_number, *numbers])
