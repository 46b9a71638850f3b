"""The places of backups and inventories: files, and for backups also cold stores."""

import asyncio
import hashlib
import os
import re
from pathlib import Path

from ....coldstore.stores.known_outcome import put_object
from ....coldstore.stores.open_store import open_cold_store
from ....core.protocol.errors import ConfigurationError, InvalidArgumentError
from ....core.runtime.cold_store import OBJECT_BYTES_MAX
from ....rebuild.backup import Backup
from ....rebuild.inventory import BookieInventory

_URI = re.compile(r"[a-z][a-z0-9+.\-]*:")
_FOLDER = "metadata-backups"


async def store_backup(backup: Backup, place: str) -> tuple[str, int]:
    """Write a backup to a file, or to a new object of the cold store that ``place`` names.

    Returns the file or the key, and the bytes. Raises InvalidArgumentError (too large),
    ConfigurationError (not writable) and the errors of cold stores.
    """
    data = backup.encode()
    if not _URI.match(place):
        await asyncio.to_thread(write_private, Path(place), data)
        return place, len(data)
    if len(data) > OBJECT_BYTES_MAX:
        raise InvalidArgumentError(
            f"the backup has {len(data)} bytes; an object has {OBJECT_BYTES_MAX} at most"
        )
    digest = hashlib.sha256(data).hexdigest()[:16]
    key = f"{_FOLDER}/{backup.instance_id}/{backup.ended_ms:013d}-{digest}"
    cold = open_cold_store(place)
    try:
        await put_object(cold, key, data)
    finally:
        await cold.close()
    return key, len(data)


async def load_backup(place: str, key: str | None) -> Backup:
    """Read the backup in a file; of a cold store the one with ``key``, or the newest.

    Raises ConfigurationError (no such file or object), ForeignDataError, CorruptionError.
    """
    if not _URI.match(place):
        return Backup.decode(await asyncio.to_thread(_read, Path(place)), place)
    cold = open_cold_store(place)
    try:
        if key is None:
            keys = await cold.list(_FOLDER)
            key = max(keys, key=lambda one: one.rpartition("/")[2], default=None)
            if key is None:
                raise ConfigurationError(f"{place} has no backup")
        return Backup.decode(await cold.get(key), f"{place} {key}")
    finally:
        await cold.close()


async def load_inventories(paths: tuple[Path, ...]) -> list[BookieInventory]:
    """Read inventories. Raises ConfigurationError, ForeignDataError, CorruptionError."""
    return [
        BookieInventory.decode(await asyncio.to_thread(_read, path), str(path)) for path in paths
    ]


def write_private(path: Path, data: bytes) -> None:
    """Replace a file atomically and durably; only its owner can read it.

    Raises ConfigurationError.
    """
    new = path.with_name(f"{path.name}.new")
    try:
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "wb") as output:
            output.write(data)
            output.flush()
            os.fsync(output.fileno())
        new.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror or error}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}") from error
