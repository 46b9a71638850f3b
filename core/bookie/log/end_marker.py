"""The end marker: a small file that says how far the newest log file was acknowledged.

It is evidence from outside the log: a log that ends before its marker has lost something, however
whole it looks (rule BKE-15). The marker is written after each group is durable and before the group
is acknowledged. It is synced only with a new log file and at an orderly shutdown. A killed process
therefore leaves an exact marker, and a machine that goes down may leave an older one, which is a
lower bound.

The file has two slots of 512 bytes, which are written in turn, so that a torn write leaves one. A
marker without an intact slot is damaged, unless the machine went down, which may tear both. A file
that is missing, short or wiped is lost: no kill and no crash of the machine leaves that, since a
slot was synced before the log was used. The end of the log is then unknown, unless the log ends
with the record of an orderly shutdown.
"""

import struct
from typing import NamedTuple

from crc32c import crc32c

from ...protocol.bookie_id import BookieId
from ...protocol.errors import RhumblineError
from ...runtime.disk import Disk, File

END_MARKER_PATH = "log.end"
SLOT_BYTES = 512

_MAGIC = b"RHUMEND\x00"
_FIELDS = struct.Struct(">8sQQQQ250s")
_CRC = struct.Struct(">I")


class LogEnd(NamedTuple):
    """The end of the acknowledged part of a log file."""

    number: int
    end: int
    generation: int


class EndMarker:
    """Writes the marker of one bookie."""

    def __init__(self, disk: Disk, bookie: BookieId) -> None:
        self._disk = disk
        self._name = bookie.encode("ascii")
        self._file: File | None = None
        self._count = 0

    async def open(self) -> None:
        """Opens or creates the file. Raises DiskFullError, DiskFailedError."""
        if self._file is not None:
            return
        try:
            self._file = await self._disk.open(END_MARKER_PATH)
            self._count = await _newest_count(self._file, self._name)
        except FileNotFoundError:
            self._file = await self._disk.open(END_MARKER_PATH, create=True)
            await self._file.write(0, [bytes(2 * SLOT_BYTES)])
            await self._disk.sync_directory("")

    async def write(self, log_end: LogEnd, *, is_durable: bool = False) -> None:
        """Writes the marker. Raises DiskFullError, DiskFailedError."""
        assert self._file is not None
        self._count += 1
        slot = _encode(log_end, self._count, self._name)
        write = self._file.write_durable if is_durable else self._file.write
        await write(self._count % 2 * SLOT_BYTES, [slot])

    async def aclose(self) -> None:
        """Closes the file. Safe to repeat."""
        if self._file is not None:
            await self._file.close()
            self._file = None


def _encode(log_end: LogEnd, count: int, name: bytes) -> bytes:
    number, end, generation = log_end
    fields = _FIELDS.pack(_MAGIC, count, number, generation, end, name)
    body = fields.ljust(SLOT_BYTES - _CRC.size, b"\x00")
    return body + _CRC.pack(crc32c(body))


def _decode(slot: bytes, name: bytes) -> tuple[int, LogEnd] | None:
    if len(slot) < SLOT_BYTES or slot[-4:] != _CRC.pack(crc32c(slot[:-4])):
        return None
    magic, count, number, generation, end, owner = _FIELDS.unpack_from(slot)
    if magic != _MAGIC or owner.rstrip(b"\x00") != name:
        return None
    return count, LogEnd(number, end, generation)


def _slots(data: bytes, name: bytes) -> list[tuple[int, LogEnd]]:
    slots = [_decode(data[at : at + SLOT_BYTES], name) for at in (0, SLOT_BYTES)]
    return [slot for slot in slots if slot is not None]


async def _newest_count(file: File, name: bytes) -> int:
    data = await file.read(0, 2 * SLOT_BYTES)
    return max((count for count, _ in _slots(data, name)), default=0)


class FoundMarker(NamedTuple):
    """The content of the marker's file when a bookie starts."""

    end: LogEnd | None
    """The newest intact marker of this bookie, None if there is none."""
    is_lost: bool
    """True if a storage that was used has its marker no more, and no crash explains it."""


async def find_end_marker(disk: Disk, bookie: BookieId) -> FoundMarker:
    """Read the marker.

    A torn write leaves the beginning of a slot, which is always the same. A file that cannot be
    read tells nothing.
    """
    try:
        file = await disk.open(END_MARKER_PATH)
        try:
            data = await file.read(0, 2 * SLOT_BYTES)
        finally:
            await file.close()
    except FileNotFoundError:
        return FoundMarker(None, is_lost=True)
    except RhumblineError:
        return FoundMarker(None, is_lost=False)
    found = _slots(data, bookie.encode("ascii"))
    is_whole = len(data) == 2 * SLOT_BYTES
    is_lost = not is_whole or not any(data.startswith(_MAGIC, at) for at in (0, SLOT_BYTES))
    return FoundMarker(max(found)[1] if found else None, is_lost)
