"""Attaches the data directories of a bookie when its storage is opened (rules DSK-1, DSK-2).

A directory is added by its setting, and must be empty when it is added. A directory that is
recorded must be there with its cookie, unless the settings declare it lost.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from ...protocol.errors import ForeignDataError, InvalidArgumentError
from ...runtime.disk import Disk
from ...runtime.event_log import EventLog
from ..config import BookieConfig
from ..identity import STORAGE_VERSION_OF_DATA_DIRECTORIES, read_identity, write_identity
from ..log.file_set import DIRECTORIES
from ..log.log_format import SORTED_KIND
from ..space_limits import limits_on_disk
from .directory_records import (
    COOKIE_FILE,
    DirectoryCookie,
    DirectoryRecord,
    read_cookie,
    read_record,
    write_cookie,
    write_record,
)
from .spread_disk import DataDirectory, FullBelow, SpreadDisk

_LOG = EventLog(__name__)
_SORTED = DIRECTORIES[SORTED_KIND]
_OF_EMPTY_ONE = frozenset({COOKIE_FILE, COOKIE_FILE + ".new", _SORTED, "lost+found"})

OpenDisk = Callable[[str], Disk]
"""Opens a directory that exists. Raises ForeignDataError if it does not, or is in use."""


async def attach_recorded(main: Disk, open_disk: OpenDisk) -> Disk:
    """Return the disk with all recorded data directories, for tools that change none of them."""
    bookie = None
    directories = []
    for known in await read_record(main):
        bookie = bookie or (await read_identity(main)).bookie_id
        directories.append(await _recorded(known, bookie, open_disk))
    return await _spread(main, directories, lambda total_bytes: 0)


async def attach_configured(
    main: Disk, config: BookieConfig, open_disk: OpenDisk, random: Random
) -> Disk:
    """Return the disk with the data directories of ``config``, of which new ones are recorded.

    Raises ForeignDataError (a recorded
    directory is missing, without its cookie, or neither configured nor declared lost; a new one is
    not empty), InvalidArgumentError, CorruptionError, DiskFullError, DiskFailedError.
    """
    paths, lost = config.data_dirs, config.lost_data_dirs
    both = [path for path in paths if path in lost]
    if both:
        raise InvalidArgumentError(f"{both[0]} is in data_dirs and in lost_data_dirs")
    record = await read_record(main)
    known = {one.path: one for one in record}
    for path in known:
        if path not in paths and path not in lost:
            raise ForeignDataError(
                f"{path} is a data directory of this bookie, but it is not in bookie.data_dirs; "
                "add it, or declare it in bookie.lost_data_dirs if its disk is lost for good"
            )
    if not record and not paths:
        return main
    identity = await read_identity(main)
    if identity.version < STORAGE_VERSION_OF_DATA_DIRECTORIES:
        # Programs that do not know data directories refuse the storage from now on.
        version = STORAGE_VERSION_OF_DATA_DIRECTORIES
        await write_identity(main, replace(identity, version=version))
    attached = [
        await _recorded(known[path], identity.bookie_id, open_disk)
        if path in known
        else await _added(path, identity.bookie_id, open_disk, random)
        for path in paths
    ]
    wanted = [DirectoryRecord(one.path, one.cookie.directory_id) for one in attached]
    if wanted != record:
        await write_record(main, wanted)
    for path in known:
        if path in lost:
            bookie = identity.bookie_id
            _LOG.warning("data directory dropped", bookie=bookie, directory=path)
    return await _spread(
        main,
        attached,
        lambda total_bytes: limits_on_disk(config, total_bytes).read_only_below_bytes,
    )


async def _spread(main: Disk, directories: Sequence[DataDirectory], full_below: FullBelow) -> Disk:
    if not directories:
        return main
    disk = SpreadDisk(main, directories, full_below)
    await disk.find_files()
    return disk


async def _recorded(known: DirectoryRecord, bookie: str, open_disk: OpenDisk) -> DataDirectory:
    disk = open_disk(known.path)
    cookie = await read_cookie(disk)
    if cookie != DirectoryCookie(bookie, known.directory_id):
        raise ForeignDataError(
            f"{known.path} is not the data directory {known.directory_id} of bookie {bookie}: "
            "mount its disk, or move it from bookie.data_dirs to bookie.lost_data_dirs if the disk "
            "is lost for good"
        )
    return DataDirectory(known.path, disk, cookie)


async def _added(path: str, bookie: str, open_disk: OpenDisk, random: Random) -> DataDirectory:
    disk = open_disk(path)
    names = await disk.list("")
    foreign = [name for name in names if name not in _OF_EMPTY_ONE]
    if _SORTED in names:
        foreign += await disk.list(_SORTED)
    found = await read_cookie(disk)
    if foreign or (found is not None and found.bookie != bookie):
        owner = "" if found is None else f" of bookie {found.bookie}"
        raise ForeignDataError(f"{path} is not empty: it holds data{owner}")
    cookie = DirectoryCookie(bookie, f"{random.getrandbits(64):016x}")
    await write_cookie(disk, cookie)
    _LOG.info("data directory added", bookie=bookie, directory=path)
    return DataDirectory(path, disk, cookie)
