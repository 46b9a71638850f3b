"""Whose storage this is: the identity file, and formatting.

Formatting mints a new bookie id, so an emptied bookie never answers in the name of what it was. The
id, the cluster's instance id and the region are fixed for the life of the storage; they stand in a
file here, twice, and as a cookie (BookKeeper's text form) and a region node in the metadata store.
The file is written last, so a format that was cut off leaves no storage behind, only an id that
nobody will ever use.
"""

import json
from dataclasses import asdict, dataclass, replace

from crc32c import crc32c

from ..metadata.bookie_directory import BookieDirectory
from ..protocol.bookie_id import BookieId, Region, check_bookie_id, check_region, mint_bookie_id
from ..protocol.errors import (
    CorruptionError,
    ForeignDataError,
    InvalidArgumentError,
    WrongClusterError,
)
from ..runtime.disk import Disk
from ..runtime.runtime import Runtime
from ..wire.cookie import Cookie
from .log.file_set import DIRECTORIES
from .log.log_format import LOG_KIND, SORTED_KIND

IDENTITY_FILE = "identity"
STORAGE_VERSION = 1
_BYTES_MAX = 64 * 1024
_COPY_BYTES = 4096
_NEW_FILE = IDENTITY_FILE + ".new"
_IGNORED = frozenset({"lost+found", _NEW_FILE})
"""What is not counted as data: the second is what a format that was cut off leaves behind."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a storage belongs to. ``was_opened``: from then on its log must be there."""

    bookie_id: BookieId
    instance_id: str
    region: Region
    rack: Region
    was_opened: bool = False
    version: int = STORAGE_VERSION


def cookie_of(identity: Identity) -> Cookie:
    """The cookie that stands in the metadata store."""
    directories = (DIRECTORIES[SORTED_KIND],)
    return Cookie(
        identity.bookie_id, DIRECTORIES[LOG_KIND], directories, identity.instance_id, ("index",)
    )


async def format_storage(
    disk: Disk,
    runtime: Runtime,
    name: str,
    region: str,
    rack: str,
    instance_id: str,
    directory: BookieDirectory,
) -> BookieId:
    """Makes an empty directory the storage of a new bookie and returns its id.

    Raises ForeignDataError when the directory is not empty, InvalidArgumentError for a bad name,
    region or rack, MetadataError.
    """
    names = [entry for entry in await disk.list("") if entry not in _IGNORED]
    if IDENTITY_FILE in names:
        raise ForeignDataError("the directory holds a bookie already; choose an empty one")
    if names:
        raise ForeignDataError(f"the directory is not empty (it holds {names[0][:80]!r})")
    bookie = mint_bookie_id(name, runtime.random.getrandbits(32))
    identity = Identity(bookie, instance_id, check_region(region), check_region(rack))
    await directory.record_region(bookie, identity.region)
    await directory.write_cookie(cookie_of(identity))
    await write_identity(disk, identity)
    return bookie


async def write_identity(disk: Disk, identity: Identity) -> None:
    """Replaces the identity file, atomically and durably."""
    if _NEW_FILE in await disk.list(""):
        await disk.remove(_NEW_FILE)
    file = await disk.open(_NEW_FILE, create=True)
    await file.write_durable(0, [encode_identity(identity)])
    await file.close()
    await disk.rename(_NEW_FILE, IDENTITY_FILE)
    await disk.sync_directory("")


def encode_identity(identity: Identity) -> bytes:
    """A line of JSON and its checksum in a second line; and again in a block of its own.

    What befalls one block of the disk leaves the other.
    """
    line = json.dumps(asdict(identity), sort_keys=True).encode()
    copy = line + f"\n{crc32c(line):08x}\n".encode()
    assert len(copy) <= _COPY_BYTES
    return copy.ljust(_COPY_BYTES, b"\n") * 2


def decode_identity(data: bytes) -> Identity:
    """Reads the identity file: the first of its copies that is whole.

    Raises CorruptionError (damaged), ForeignDataError (not ours, or of another format version).
    """
    second = data[_COPY_BYTES:]
    try:
        return _decode_copy(data[:_COPY_BYTES])
    except (CorruptionError, ForeignDataError):
        if not second:
            raise
    try:
        return _decode_copy(second)
    except ForeignDataError:
        return _decode_copy(data[:_COPY_BYTES])  # what is wrong with the first one says more


def _decode_copy(data: bytes) -> Identity:
    line, _, rest = data.partition(b"\n")
    if not line.startswith(b"{"):
        raise ForeignDataError(f"the file {IDENTITY_FILE!r} is not a bookie's")
    if rest.strip() != f"{crc32c(line):08x}".encode():
        raise CorruptionError(
            f"the file {IDENTITY_FILE!r} does not match its checksum, and so it cannot be known "
            "whose storage this is; put it back from a backup, or decommission the bookie (its "
            "entries come from the other replicas) and format an empty directory"
        )
    fields = json.loads(line)
    version = fields.get("version")
    if version != STORAGE_VERSION:
        raise ForeignDataError(
            f"the storage has format version {version}; this program reads {STORAGE_VERSION}"
        )
    try:
        identity = Identity(**fields)
        check_bookie_id(identity.bookie_id)
        check_region(identity.region)
    except (TypeError, InvalidArgumentError) as error:
        raise CorruptionError(f"the file {IDENTITY_FILE!r} is damaged: {error}") from error
    return identity


async def read_identity(disk: Disk) -> Identity:
    """Whose storage this is.

    Raises ForeignDataError when it was never formatted or is of another format, CorruptionError.
    """
    names = await disk.list("")
    if IDENTITY_FILE not in names:
        raise ForeignDataError(
            "the directory was never formatted as a bookie's storage; format it first"
            if not [name for name in names if name not in _IGNORED]
            else f"the directory is not a bookie's storage (it holds {names[0][:80]!r})"
        )
    file = await disk.open(IDENTITY_FILE)
    try:
        return decode_identity(await file.read(0, _BYTES_MAX))
    finally:
        await file.close()


async def mend_identity(disk: Disk, identity: Identity) -> None:
    """Writes the file anew if a copy in it is damaged. Raises DiskFullError, DiskFailedError."""
    file = await disk.open(IDENTITY_FILE)
    try:
        data = await file.read(0, _BYTES_MAX)
    finally:
        await file.close()
    if data != encode_identity(identity):
        await write_identity(disk, identity)


async def check_identity(identity: Identity, directory: BookieDirectory) -> None:
    """Compares with what the metadata store says of this id.

    Raises WrongClusterError when the store is another cluster's or knows another bookie by this
    id, MetadataError.
    """
    instance = await directory.instance_id()
    if instance != identity.instance_id:
        raise WrongClusterError(
            f"this storage belongs to cluster {identity.instance_id}; "
            f"the metadata store is that of {instance}"
        )
    cookie = await directory.read_cookie(identity.bookie_id)
    if cookie is None:
        raise WrongClusterError(
            f"bookie {identity.bookie_id} has no cookie in the metadata store: it was "
            "decommissioned; format an empty directory to use it again"
        )
    if (cookie.bookie_id, cookie.instance_id) != (identity.bookie_id, identity.instance_id):
        raise WrongClusterError(
            f"the cookie of {identity.bookie_id} in the metadata store is another bookie's"
        )
    region = await directory.region_of(identity.bookie_id)
    if region != identity.region:
        raise WrongClusterError(
            f"bookie {identity.bookie_id} is in region {identity.region}; "
            f"the metadata store says {region}"
        )


async def mark_opened(disk: Disk, identity: Identity) -> Identity:
    """Remembers that there is a log now: a later start without one is refused."""
    opened = replace(identity, was_opened=True)
    await write_identity(disk, opened)
    return opened
