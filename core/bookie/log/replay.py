"""Replay of a log file, which distinguishes a torn end from damage (rule BKE-15).

An unreadable group is damage if it must have been complete once: a good group of the same file
follows, or the next file's header shows that this file continued, or the operating system never
went down (then all written bytes are there, and a killed process leaves only the beginning of a
group). Any other unreadable end is torn: nothing in it was acknowledged, unless the disk ignored
syncs, so an end that was torn when the operating system went down counts as damage too
(start/startup.py). Zeros at the end of the file are padding (log_file.py).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from crc32c import crc32c

from ...runtime.disk import File
from .log_format import (
    FILE_HEADER_BYTES,
    GROUP_HEADER_BYTES,
    GROUP_MAGIC,
    FileHeader,
    GroupHeader,
    decode_group_header,
)

_CHUNK_BYTES = 4 << 20
_BODY_BYTES_MAX = 128 << 20
_PAUSE_BYTES = 256 << 10

OnGroup = Callable[[int, bytes], None]
"""Callback with the offset of a group's body in the file, and the body."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A part of a file that was written once and cannot be read."""

    number: int
    start: int
    end: int
    reason: str


@dataclass(slots=True)
class FileScan:
    """The result of scanning one file.

    ``end`` is the end of the last good group, ``group_number`` the number of the next group,
    ``previous`` the length and CRC of the last group's body.
    """

    end: int = FILE_HEADER_BYTES
    group_number: int = 0
    previous: tuple[int, int] = (0, 0)
    damages: list[Damage] = field(default_factory=list)
    torn_bytes: int = 0
    is_cut_short: bool = False
    """True if the bytes after ``end`` are the beginning of a group that was not fully written."""


class _Window:
    """A read buffer over a file that does not change."""

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self.size = size
        self._start = 0
        self._data = b""

    async def at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes at ``offset``, fewer at the end of the file."""
        length = max(0, min(length, self.size - offset))
        if not (self._start <= offset and offset + length <= self._start + len(self._data)):
            self._data = await self._file.read(offset, max(length, _CHUNK_BYTES))
            self._start = offset
        start = offset - self._start
        return self._data[start : start + length]


async def yield_to_loop(_: int) -> None:
    """The default throttle of a scan: none."""
    await asyncio.sleep(0)


async def scan_file(
    file: File,
    header: FileHeader,
    end: int | None,
    on_group: OnGroup,
    throttle: Callable[[int], Awaitable[None]] = yield_to_loop,
) -> FileScan:
    """Calls ``on_group`` for each good group.

    ``throttle`` is awaited regularly with the number of bytes that were read since the last call.
    ``end`` is the known end of the file, or None for the newest file, which may have a torn end.
    Raises DiskFailedError if the file cannot be read at all.
    """
    size = await file.size()
    window = _Window(file, size if end is None else min(size, end))
    scan = FileScan()
    offset, number, previous = FILE_HEADER_BYTES, 0, (0, 0)
    pause_at = offset + _PAUSE_BYTES
    while offset < window.size:
        group, body = await _group_at(window, offset, header)
        fault = _fault_of(group, body, number, previous)
        if fault is None:
            assert group is not None
            on_group(offset + GROUP_HEADER_BYTES, body)
            offset += GROUP_HEADER_BYTES + group.length
            if offset >= pause_at:
                await throttle(offset - pause_at + _PAUSE_BYTES)
                pause_at = offset + _PAUSE_BYTES
            number, previous = group.number + 1, (group.length, group.crc)
            scan.end, scan.group_number, scan.previous = offset, number, previous
            continue
        found = await _next_group(window, offset + 1, header, number)
        if found is None:
            if end is None:
                await _classify_end(scan, window, group)
            return _with_missing_end(scan, header.number, end)
        scan.damages.append(Damage(header.number, offset, found[0], fault))
        offset, number, previous = found[0], found[1].number, found[1][3:5]
    return _with_missing_end(scan, header.number, end)


async def _group_at(
    window: _Window, offset: int, header: FileHeader
) -> tuple[GroupHeader | None, bytes]:
    group = decode_group_header(await window.at(offset, GROUP_HEADER_BYTES))
    if group is None or group.generation != header.generation or group.length > _BODY_BYTES_MAX:
        return None, b""
    return group, await window.at(offset + GROUP_HEADER_BYTES, group.length)


def _fault_of(
    group: GroupHeader | None, body: bytes, number: int, previous: tuple[int, int]
) -> str | None:
    """Return the reason why a group is bad, None if it is good."""
    if group is None:
        return "no valid group header"
    if group.number != number or (group.previous_length, group.previous_crc) != previous:
        return f"found group {group.number} in place of group {number}"
    if len(body) != group.length:
        return f"group {group.number} is truncated"
    if crc32c(body) != group.crc:
        return f"group {group.number} does not match its checksum"
    return None


async def _next_group(
    window: _Window, offset: int, header: FileHeader, number: int
) -> tuple[int, GroupHeader] | None:
    """Return the next valid group header of this file with a later number, and its offset."""
    while offset < window.size:
        data = await window.at(offset, _CHUNK_BYTES)
        at = data.find(GROUP_MAGIC)
        while at >= 0:
            group, _ = await _group_at(window, offset + at, header)
            if group is not None and group.number > number:
                return offset + at, group
            at = data.find(GROUP_MAGIC, at + 1)
        if len(data) <= len(GROUP_MAGIC):
            return None
        offset += len(data) - len(GROUP_MAGIC) + 1
    return None


async def _classify_end(scan: FileScan, window: _Window, group: GroupHeader | None) -> None:
    """Classifies an unreadable end of the newest file, which no good group follows."""
    scan.torn_bytes = await _written_end(window, scan.end) - scan.end
    whole = GROUP_HEADER_BYTES + (0 if group is None else group.length)
    scan.is_cut_short = 0 < scan.torn_bytes < whole


async def _written_end(window: _Window, start: int) -> int:
    """Return the end of what was written from ``start`` on, without the zeros after it."""
    end = offset = start
    while offset < window.size:
        data = await window.at(offset, _CHUNK_BYTES)
        written = data.rstrip(b"\x00")
        if written:
            end = offset + len(written)
        offset += len(data)
    return end


def _with_missing_end(scan: FileScan, number: int, end: int | None) -> FileScan:
    if end is not None and scan.end < end:
        scan.damages.append(Damage(number, scan.end, end, "the end of the file is missing or bad"))
    return scan
