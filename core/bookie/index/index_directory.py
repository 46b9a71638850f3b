"""The directory ``index`` of a bookie: one index file for each data file that does not change.

An index file gets its name when it is durable, by renaming a file with the suffix ``.new``. All of
them can be rebuilt from the data files, so any of them may be removed while the bookie is down.
"""

from collections.abc import Container, Iterable
from contextlib import suppress

from ...protocol.bookie_id import BookieId
from ...protocol.errors import DiskFailedError, RhumblineError
from ...runtime.disk import Disk
from .index_file import (
    DataFile,
    IndexFile,
    LedgerColumns,
    Pause,
    read_index_file,
    write_index_file,
)
from .ledger_entries import LedgerEntries

INDEX_DIRECTORY = "index"

_SUFFIX = ".index"
_NEW = ".new"


def index_path(number: int) -> str:
    """Return the path of the index file of data file ``number``."""
    return f"{INDEX_DIRECTORY}/{number:010d}{_SUFFIX}"


class IndexDirectory:
    """Reads, writes and removes the index files of one bookie."""

    def __init__(self, disk: Disk, bookie: BookieId) -> None:
        self._disk = disk
        self._bookie = bookie

    async def prepare(self) -> None:
        """Creates the directory. Safe to repeat."""
        await self._disk.make_directory(INDEX_DIRECTORY)
        await self._disk.sync_directory("")

    async def numbers(self) -> list[int]:
        """Return the numbers of the data files that have an index file, rising."""
        try:
            names = await self._disk.list(INDEX_DIRECTORY)
        except FileNotFoundError:
            return []  # the storage was formatted but never opened
        found = [_number_of(name) for name in names if name.endswith(_SUFFIX)]
        return sorted(number for number in found if number is not None)

    async def read(self, kind: int, number: int) -> tuple[IndexFile, LedgerColumns] | None:
        """Open an index file; None if it is missing, unreadable, damaged or of another file."""
        try:
            file = await self._disk.open(index_path(number))
        except (FileNotFoundError, RhumblineError):
            return None
        try:
            found = await read_index_file(file, kind, number, self._bookie)
        except RhumblineError:
            found = None  # it cannot be read, so it is rebuilt
        if found is None:
            await file.close()
        return found

    async def write(
        self, data_file: DataFile, columns: Iterable[tuple[int, LedgerEntries]], pause: Pause
    ) -> tuple[IndexFile, LedgerColumns]:
        """Writes an index file durably, replacing the old one, and reads it back.

        Raises DiskFullError, DiskFailedError.
        """
        path = index_path(data_file.number)
        await self._remove(path + _NEW)
        file = await self._disk.open(path + _NEW, create=True)
        try:
            await write_index_file(file, data_file, self._bookie, columns, pause)
        except RhumblineError:
            await self._remove(path + _NEW)
            raise
        finally:
            await file.close()
        await self._disk.rename(path + _NEW, path)
        await self._disk.sync_directory(INDEX_DIRECTORY)
        file = await self._disk.open(path)
        found = await read_index_file(file, data_file.kind, data_file.number, self._bookie)
        if found is None or found[0].data_file != data_file:
            await file.close()
            raise DiskFailedError(f"{path}: the index file is damaged right after it was written")
        return found

    async def remove(self, numbers: Iterable[int]) -> None:
        """Removes index files. Ignores files that do not exist. Raises DiskFailedError."""
        for number in numbers:
            await self._remove(index_path(number))
        await self._disk.sync_directory(INDEX_DIRECTORY)

    async def remove_others(self, numbers: Container[int]) -> None:
        """Removes the index files of all other data files, and unfinished ones."""
        names = [
            name
            for name in await self._disk.list(INDEX_DIRECTORY)
            if name.endswith(_SUFFIX + _NEW)
            or (name.endswith(_SUFFIX) and _number_of(name) not in numbers)
        ]
        for name in names:
            await self._remove(f"{INDEX_DIRECTORY}/{name}")
        if names:
            await self._disk.sync_directory(INDEX_DIRECTORY)

    async def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            await self._disk.remove(path)


def _number_of(name: str) -> int | None:
    stem = name.removesuffix(_SUFFIX)
    return int(stem) if stem.isascii() and stem.isdigit() else None
