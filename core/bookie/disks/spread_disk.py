"""The disk of a bookie with data directories: its own directory, and others for sorted files.

New sorted files go to the data directory with the most free space, and to the bookie's own one if
none has space. A data directory with less free space than the limit for plain adds is full: it gets
no new files, and its files are read as before (rule DSK-6). The write log, the index and everything
else stay in the bookie's own directory, so the index still names what lay on a data directory that
has failed.

A data directory fails once a write to it fails for another reason than a lack of space, or a probe
of it (lost_files.py), or if its disk does not respond (rule DSK-7). It is not used again by this
process: reads of its files raise LostFileError, which means "unknown", and removals of them do
nothing.
"""

import asyncio
from collections.abc import Callable, Sequence

from ...protocol.errors import CorruptionError, DiskFailedError, DiskFullError
from ...runtime.disk import Disk, File
from ...runtime.event_log import EventLog
from ..log.file_set import DIRECTORIES
from ..log.log_format import SORTED_KIND
from .directory_records import DirectoryCookie

_LOG = EventLog(__name__)
_SORTED = DIRECTORIES[SORTED_KIND]
RESPONSE_S_MAX = 30.0
"""Time after which a disk that does not answer a probe or a measurement has failed, in seconds."""

FullBelow = Callable[[int], int]
"""Function of a disk's capacity that returns the free space below which it gets no new files."""


class LostFileError(CorruptionError):
    """The file lay in a data directory that has failed."""


class DataDirectory:
    """One data directory: its disk, and the error that ended its use."""

    def __init__(self, path: str, disk: Disk, cookie: DirectoryCookie) -> None:
        self.path = path
        self.disk = disk
        self.cookie = cookie
        self.failure: DiskFailedError | None = None
        self.free_bytes = 0
        """Free space, as of the last measurement."""
        self.total_bytes = 0
        self.is_full = False
        """True if it gets no new files, because it has too little free space."""
        self.on_failed: Callable[[DataDirectory], None] = lambda directory: None
        self._reads: dict[asyncio.Timeout, None] = {}

    def fail(self, error: DiskFailedError) -> None:
        """Ends the use of the directory, and the reads that wait for it. Safe to repeat."""
        if self.failure is None:
            self.failure = error
            now_s = asyncio.get_running_loop().time()
            for waiting in self._reads:
                waiting.reschedule(now_s)
            self.on_failed(self)

    async def read(self, file: File, offset: int, length: int) -> bytes:
        """Read a file of the directory. Raises LostFileError, as soon as the directory fails."""
        self.check(file.path)
        waiting = asyncio.timeout(None)
        try:
            async with waiting:
                self._reads[waiting] = None
                return await file.read(offset, length)
        except TimeoutError:
            self.check(file.path)
            raise
        finally:
            self._reads.pop(waiting, None)

    async def measure(self, full_below: FullBelow) -> None:
        """Reads the free space. A failure, or no response, ends the use of the directory."""
        try:
            async with asyncio.timeout(RESPONSE_S_MAX):
                self.free_bytes = await self.disk.free_bytes()
                self.total_bytes = await self.disk.total_bytes()
        except (DiskFailedError, FileNotFoundError) as error:
            self.fail(DiskFailedError(str(error)))
            return
        except TimeoutError:
            self.fail(DiskFailedError(f"no measurement ended within {RESPONSE_S_MAX:g} s"))
            return
        limit = full_below(self.total_bytes)
        # It is used again a tenth above the limit, so that the mode does not flap.
        is_full = self.free_bytes < (limit * 11 // 10 if self.is_full else limit)
        if is_full == self.is_full:
            return
        self.is_full = is_full
        bookie, free_bytes = self.cookie.bookie, self.free_bytes
        if is_full:
            _LOG.warning(
                "data directory full", bookie=bookie, directory=self.path, free_bytes=free_bytes
            )
        else:
            _LOG.info(
                "data directory usable", bookie=bookie, directory=self.path, free_bytes=free_bytes
            )

    def check(self, path: str) -> None:
        """Raise LostFileError if the directory has failed."""
        if self.failure is not None:
            raise LostFileError(f"{path} lay in {self.path}, which has failed: {self.failure}")


class SpreadDisk:
    """The files of one bookie in several directories; implements ``core.runtime.disk.Disk``."""

    def __init__(
        self, main: Disk, directories: Sequence[DataDirectory], full_below: FullBelow
    ) -> None:
        self._main = main
        self._full_below = full_below
        self.directories = list(directories)
        self._places: dict[str, DataDirectory] = {}

    async def find_files(self) -> None:
        """Finds the files in all data directories. Must be called before any other method."""
        for directory in self.directories:
            await directory.disk.make_directory(_SORTED)
            await directory.disk.sync_directory("")
            for name in await directory.disk.list(_SORTED):
                self._places[f"{_SORTED}/{name}"] = directory

    async def measure(self) -> None:
        """Reads the free space of each data directory in use."""
        for directory in self.directories:
            if directory.failure is None:
                await directory.measure(self._full_below)

    def files_in(self, directory: DataDirectory) -> int:
        """Return the number of files in a data directory."""
        return sum(1 for place in self._places.values() if place is directory)

    def is_lost(self, path: str) -> bool:
        """Return whether the file lay in a data directory that has failed."""
        directory = self._places.get(path)
        return directory is not None and directory.failure is not None

    def directory_of(self, path: str) -> str:
        """Return the data directory in use that has a file; "" for any other file."""
        directory = self._places.get(path)
        return "" if directory is None or directory.failure is not None else directory.path

    async def open(self, path: str, *, create: bool = False, allocate_bytes: int = 0) -> File:
        """See Disk. A new sorted file goes to the directory with the most space that can be used.

        Raises LostFileError too.
        """
        if create and path.startswith(f"{_SORTED}/"):
            for directory in await self._by_free_space():
                try:
                    file = await directory.disk.open(
                        path, create=True, allocate_bytes=allocate_bytes
                    )
                except DiskFullError:
                    continue
                except (DiskFailedError, FileNotFoundError) as error:
                    directory.fail(DiskFailedError(str(error)))
                    continue
                self._places[path] = directory
                return _DataFile(file, directory)
        place = self._places.get(path)
        if place is None:
            return await self._main.open(path, create=create, allocate_bytes=allocate_bytes)
        place.check(path)
        return _DataFile(await place.disk.open(path), place)

    async def _by_free_space(self) -> Sequence[DataDirectory]:
        await self.measure()
        usable = [one for one in self.directories if one.failure is None and not one.is_full]
        return sorted(usable, key=lambda one: -one.free_bytes)

    async def list(self, path: str) -> list[str]:
        """See Disk. A directory of sorted files lists those of all data directories."""
        names = await self._main.list(path)
        if path != _SORTED:
            return names
        return sorted({*names, *(place.removeprefix(f"{_SORTED}/") for place in self._places)})

    async def make_directory(self, path: str) -> None:
        """See Disk."""
        await self._main.make_directory(path)

    async def rename(self, old: str, new: str) -> None:
        """See Disk. Sorted files are never renamed."""
        assert old not in self._places and new not in self._places, "a sorted file is renamed"
        await self._main.rename(old, new)

    async def remove(self, path: str) -> None:
        """See Disk. A file in a directory that has failed counts as removed."""
        place = self._places.pop(path, None)
        if place is None:
            await self._main.remove(path)
        elif place.failure is None:
            try:
                await place.disk.remove(path)
            except DiskFailedError as error:
                place.fail(error)

    async def file_identity(self, path: str) -> str:
        """See Disk."""
        place = self._places.get(path)
        return await (self._main if place is None else place.disk).file_identity(path)

    async def sync_directory(self, path: str) -> None:
        """See Disk. Raises DiskFailedError if a data directory fails, which is then out of use."""
        await self._main.sync_directory(path)
        for directory in self.directories if path == _SORTED else ():
            if directory.failure is None:
                try:
                    await directory.disk.sync_directory(path)
                except (DiskFailedError, FileNotFoundError) as error:
                    directory.fail(DiskFailedError(str(error)))
                    raise DiskFailedError(f"{directory.path}: {error}") from error

    async def free_bytes(self) -> int:
        """Return the space for the write log: that of the bookie's own directory."""
        return await self._main.free_bytes()

    async def total_bytes(self) -> int:
        """Return the capacity of the device of the bookie's own directory."""
        return await self._main.total_bytes()


class _DataFile:
    """A file of a data directory."""

    def __init__(self, file: File, directory: DataDirectory) -> None:
        self._file = file
        self._directory = directory

    @property
    def path(self) -> str:
        """See File."""
        return f"{self._directory.path}/{self._file.path}"

    async def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        """See File."""
        try:
            await self._file.write(offset, buffers)
        except DiskFailedError as error:
            self._directory.fail(error)
            raise

    async def write_durable(self, offset: int, buffers: Sequence[bytes]) -> None:
        """See File."""
        try:
            await self._file.write_durable(offset, buffers)
        except DiskFailedError as error:
            self._directory.fail(error)
            raise

    async def sync(self) -> None:
        """See File."""
        try:
            await self._file.sync()
        except DiskFailedError as error:
            self._directory.fail(error)
            raise

    async def read(self, offset: int, length: int) -> bytes:
        """See File. Raises LostFileError too."""
        return await self._directory.read(self._file, offset, length)

    async def size(self) -> int:
        """See File."""
        return await self._file.size()

    async def truncate(self, length: int) -> None:
        """See File."""
        try:
            await self._file.truncate(length)
        except DiskFailedError as error:
            self._directory.fail(error)
            raise

    async def close(self) -> None:
        """See File."""
        await self._file.close()
