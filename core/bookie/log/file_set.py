"""The files of a bookie by number (write logs and sorted files), with a cache of their chunks.

Both kinds take their numbers from one counter, so a number alone identifies a file. Sealed files
never change, so their chunks can be cached. A chunk is read whole and cached at the second read in
it; a single entry, or one in the file that is being written, is read by itself.
"""

from collections import OrderedDict

from ...protocol.errors import CorruptionError
from ...runtime.disk import Disk, File
from ..index.entry_index import Location
from .log_format import (
    LOG_KIND,
    OFFSET_BITS,
    OFFSET_MASK,
    RECORD_HEADER_BYTES,
    SORTED_KIND,
    check_record,
)

CHUNK_BYTES = 128 * 1024
_TOUCHED_MAX = 512

DIRECTORIES = {LOG_KIND: "log", SORTED_KIND: "sorted"}
_SUFFIXES = {LOG_KIND: ".log", SORTED_KIND: ".sorted"}
_NEW_SUFFIX = ".new"


def file_path(kind: int, number: int) -> str:
    """Return the path of a file."""
    return f"{DIRECTORIES[kind]}/{number:010d}{_SUFFIXES[kind]}"


def parse_number(kind: int, name: str) -> int | None:
    """Return the number in a file's name, None if the name has another form."""
    stem = name.removesuffix(_SUFFIXES[kind])
    if stem == name or len(stem) != 10 or not stem.isascii() or not stem.isdigit():
        return None
    return int(stem)


class FileGoneError(CorruptionError):
    """The file does not exist; it may have been removed since its number was read."""


class FileSet:
    """Open files by number, and a bounded cache of their chunks."""

    def __init__(self, disk: Disk, cache_bytes_max: int) -> None:
        self.disk = disk
        self._files: dict[int, File] = {}
        self._sealed: set[int] = set()
        self._chunks: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._touched: dict[tuple[int, int], None] = {}
        self._chunk_count_max = cache_bytes_max // CHUNK_BYTES

    async def prepare(self) -> None:
        """Creates the directories. Safe to repeat."""
        for directory in DIRECTORIES.values():
            await self.disk.make_directory(directory)
        await self.disk.sync_directory("")

    async def numbers(self, kind: int) -> list[int]:
        """Return the numbers of the existing files, rising; ignores other names."""
        try:
            names = await self.disk.list(DIRECTORIES[kind])
        except FileNotFoundError:
            return []  # the storage was formatted but never opened
        found = [parse_number(kind, name) for name in names]
        return sorted(number for number in found if number is not None)

    async def create(self, kind: int, number: int, allocate_bytes: int) -> File:
        """Creates a file for writing; its name is not durable yet."""
        assert number not in self._files
        file = await self.disk.open(
            file_path(kind, number), create=True, allocate_bytes=allocate_bytes
        )
        self._files[number] = file
        return file

    async def create_unnamed(self, kind: int, number: int, allocate_bytes: int) -> File:
        """Creates a file that a start ignores until ``name`` gives it its name."""
        path = file_path(kind, number) + _NEW_SUFFIX
        return await self.disk.open(path, create=True, allocate_bytes=allocate_bytes)

    async def name(self, kind: int, number: int) -> File:
        """Gives a durable file that was created without a name its name, durably; reopens it."""
        path = file_path(kind, number)
        await self.disk.rename(path + _NEW_SUFFIX, path)
        await self.sync_directory(kind)
        file = self._files[number] = await self.disk.open(path)
        return file

    async def remove_unnamed(self, kind: int) -> None:
        """Removes all files that were never given their names."""
        directory = DIRECTORIES[kind]
        for name in await self.disk.list(directory):
            if name.endswith(_NEW_SUFFIX):
                await self.disk.remove(f"{directory}/{name}")

    async def open(self, kind: int, number: int) -> File:
        """Opens an existing file, which must not change any more."""
        file = self._files.get(number)
        if file is None:
            file = self._files[number] = await self.disk.open(file_path(kind, number))
        self._sealed.add(number)
        return file

    def seal(self, number: int) -> None:
        """Marks the file as unchanging, so that its chunks can be cached."""
        self._sealed.add(number)

    async def sync_directory(self, kind: int) -> None:
        """Makes the names of new and removed files durable."""
        await self.disk.sync_directory(DIRECTORIES[kind])

    async def remove(self, kind: int, numbers: list[int]) -> None:
        """Closes and removes files durably. Ignores files that do not exist."""
        for number in numbers:
            file = self._files.pop(number, None)
            self._sealed.discard(number)
            if file is not None:
                await file.close()
            try:
                await self.disk.remove(file_path(kind, number))
            except FileNotFoundError:
                continue
        await self.sync_directory(kind)
        gone = set(numbers)
        for key in [key for key in self._chunks if key[0] in gone]:
            del self._chunks[key]

    async def read_record(self, location: Location) -> bytes:
        """Return the entry at ``location``, verified against its checksum.

        Raises CorruptionError, DiskFailedError, FileGoneError.
        """
        number = location.position >> OFFSET_BITS
        start = (location.position & OFFSET_MASK) - RECORD_HEADER_BYTES
        length = location.length + RECORD_HEADER_BYTES
        if number in self._sealed and length <= CHUNK_BYTES and self._chunk_count_max:
            data = await self._read_chunked(number, start, length)
        else:
            data = await self._read(number, start, length)
        try:
            return check_record(data, location.length)
        except CorruptionError as error:
            raise CorruptionError(f"{self.place_of(location.position)}: {error}") from error

    def place_of(self, position: int) -> str:
        """Return the file and offset of a position, for messages."""
        number, offset = position >> OFFSET_BITS, position & OFFSET_MASK
        file = self._files.get(number)
        return f"{f'file {number}' if file is None else file.path}, byte {offset}"

    async def read_span(self, start: int, end: int) -> bytes:
        """Return the bytes between two positions of one file, unverified; fewer at its end.

        Raises DiskFailedError, FileGoneError.
        """
        return await self._read(start >> OFFSET_BITS, start & OFFSET_MASK, end - start)

    async def _read(self, number: int, start: int, length: int) -> bytes:
        file = self._files.get(number)
        if file is None:
            raise FileGoneError(f"file {number} does not exist")
        data = await file.read(start, length)
        if number not in self._files:
            raise FileGoneError(f"file {number} was removed")
        return data

    async def _read_chunked(self, number: int, start: int, length: int) -> bytes:
        first, last = start // CHUNK_BYTES, (start + length - 1) // CHUNK_BYTES
        if self._is_first_read(number, first) and (number, last) not in self._chunks:
            return await self._read(number, start, length)
        data = b"".join([await self._chunk(number, at) for at in range(first, last + 1)])
        start -= first * CHUNK_BYTES
        return data[start : start + length]

    def _is_first_read(self, number: int, at: int) -> bool:
        """Return whether this is the first recent read in the chunk, which is then not cached."""
        key = (number, at)
        if key in self._chunks or key in self._touched:
            return False
        self._touched[key] = None
        if len(self._touched) > _TOUCHED_MAX:
            del self._touched[next(iter(self._touched))]
        return True

    async def _chunk(self, number: int, at: int) -> bytes:
        key = (number, at)
        chunk = self._chunks.get(key)
        if chunk is not None:
            self._chunks.move_to_end(key)
            return chunk
        chunk = await self._read(number, at * CHUNK_BYTES, CHUNK_BYTES)
        if not chunk:
            raise CorruptionError(f"file {number} ends before byte {at * CHUNK_BYTES}")
        self._chunks[key] = chunk
        while len(self._chunks) > self._chunk_count_max:
            self._chunks.popitem(last=False)
        return chunk

    async def aclose(self) -> None:
        """Closes all files. Safe to repeat."""
        files, self._files = self._files, {}
        for file in files.values():
            await file.close()
