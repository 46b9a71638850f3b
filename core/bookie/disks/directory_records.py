"""The files that tie data directories to a bookie: a cookie in each, and one record of all of them.

A data directory has a random id. It is in the cookie, and with its path in the record that lies in
the bookie's own directory. The directory of a disk that is not mounted is empty: it has no cookie.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from crc32c import crc32c

from ...protocol.errors import CorruptionError, DiskFailedError
from ...runtime.disk import Disk

RECORD_FILE = "data-directories"
COOKIE_FILE = "data-directory"

_NEW = ".new"
_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class DirectoryRecord:
    """A data directory that belongs to a bookie."""

    path: str
    directory_id: str


@dataclass(frozen=True, slots=True)
class DirectoryCookie:
    """The owner of a data directory."""

    bookie: str
    directory_id: str


async def read_record(disk: Disk) -> list[DirectoryRecord]:
    """Return the data directories of the bookie. Raises CorruptionError, DiskFailedError."""
    found = await _read(disk, RECORD_FILE)
    try:
        return [] if found is None else [DirectoryRecord(**one) for one in found]
    except TypeError as error:
        raise CorruptionError(f"the file {RECORD_FILE!r} is damaged: {error}") from error


async def write_record(disk: Disk, directories: list[DirectoryRecord]) -> None:
    """Replaces the record atomically and durably. Raises DiskFullError, DiskFailedError."""
    await _write(disk, RECORD_FILE, [asdict(one) for one in directories])


async def read_cookie(disk: Disk) -> DirectoryCookie | None:
    """Return the cookie, None if there is none. Raises CorruptionError, DiskFailedError."""
    found = await _read(disk, COOKIE_FILE)
    try:
        return None if found is None else DirectoryCookie(**found)
    except TypeError as error:
        raise CorruptionError(f"the file {COOKIE_FILE!r} is damaged: {error}") from error


async def write_cookie(disk: Disk, cookie: DirectoryCookie) -> None:
    """Replaces the cookie atomically and durably. Raises DiskFullError, DiskFailedError."""
    await _write(disk, COOKIE_FILE, asdict(cookie))


async def probe(disk: Disk, cookie: DirectoryCookie) -> None:
    """Verifies that the directory is there, and that its disk can be written, by its cookie.

    Raises DiskFailedError, DiskFullError.
    """
    try:
        if await read_cookie(disk) != cookie:
            raise DiskFailedError("the directory has no cookie of this bookie: it is not mounted")
        await write_cookie(disk, cookie)
    except CorruptionError as error:
        raise DiskFailedError(str(error)) from error


async def _read(disk: Disk, name: str) -> Any:  # noqa: ANN401 - JSON
    try:
        file = await disk.open(name)
    except FileNotFoundError:
        return None
    try:
        data = await file.read(0, _BYTES_MAX)
    finally:
        await file.close()
    line, _, checksum = data.partition(b"\n")
    if checksum.strip() != f"{crc32c(line):08x}".encode():
        raise CorruptionError(f"the file {name!r} does not match its checksum")
    return json.loads(line)


async def _write(disk: Disk, name: str, content: object) -> None:
    line = json.dumps(content, sort_keys=True).encode()
    if name + _NEW in await disk.list(""):
        await disk.remove(name + _NEW)
    file = await disk.open(name + _NEW, create=True)
    try:
        await file.write_durable(0, [line + f"\n{crc32c(line):08x}\n".encode()])
    finally:
        await file.close()
    await disk.rename(name + _NEW, name)
    await disk.sync_directory("")
