"""The identity of a storage directory: the identity file, and formatting (rules BKE-3, BKE-4).

Formatting generates a new bookie id, so an emptied bookie never answers for its former contents.
The id, the cluster's instance id and the region are fixed for the lifetime of the storage. They are
stored in the identity file, in two copies, and in the metadata store as a cookie (BookKeeper's text
form) and a region node. The file is written last, so an interrupted format leaves no storage, only
an id that is never used.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass

from crc32c import crc32c

from ..metadata.bookie_directory import BookieDirectory
from ..metadata.regional_store import RegionalStore
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
STORAGE_VERSION_OF_DATA_DIRECTORIES = 2
"""The version of a storage that has, or once had, data directories (rule DSK-1)."""
_BYTES_MAX = 64 * 1024
_COPY_BYTES = 4096
_NEW_FILE = IDENTITY_FILE + ".new"
_IGNORED = frozenset({"lost+found", _NEW_FILE})
"""Names that do not make a directory non-empty; an interrupted format leaves the second one."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The owner of a storage directory. If ``was_opened`` is true, its write log must exist."""

    bookie_id: BookieId
    instance_id: str
    region: Region
    rack: Region
    was_opened: bool = False
    version: int = STORAGE_VERSION
    start: int = 0
    """Number of the last start, which may have been interrupted; 0 before the first one."""
    token: str = ""
    """The token of that start (start_record.py)."""
    previous_token: str = ""
    """The token that the metadata store held before that start."""


def cookie_of(identity: Identity) -> Cookie:
    """Return the cookie that is stored in the metadata store."""
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
    """Formats an empty directory as the storage of a new bookie and returns the bookie's id.

    Raises ForeignDataError if the directory is not empty, InvalidArgumentError for an invalid
    name, region or rack, MetadataError.
    """
    names = [entry for entry in await disk.list("") if entry not in _IGNORED]
    if IDENTITY_FILE in names:
        raise ForeignDataError(
            "the directory already holds a bookie's storage; choose an empty one"
        )
    if names:
        raise ForeignDataError(f"the directory is not empty (it holds {names[0][:80]!r})")
    bookie = mint_bookie_id(name, runtime.random.getrandbits(32))
    identity = Identity(bookie, instance_id, check_region(region), check_region(rack))
    await directory.record_region(bookie, identity.region)
    await directory.write_cookie(cookie_of(identity))
    await write_identity(disk, identity)
    return bookie


async def write_identity(disk: Disk, identity: Identity) -> None:
    """Replaces the identity file atomically and durably."""
    if _NEW_FILE in await disk.list(""):
        await disk.remove(_NEW_FILE)
    file = await disk.open(_NEW_FILE, create=True)
    await file.write_durable(0, [encode_identity(identity)])
    await file.close()
    await disk.rename(_NEW_FILE, IDENTITY_FILE)
    await disk.sync_directory("")


def encode_identity(identity: Identity) -> bytes:
    """Encodes a line of JSON and a line with its checksum, in two copies.

    Each copy has its own disk block, so damage to one block leaves the other copy intact.
    """
    line = json.dumps(asdict(identity), sort_keys=True).encode()
    copy = line + f"\n{crc32c(line):08x}\n".encode()
    assert len(copy) <= _COPY_BYTES
    return copy.ljust(_COPY_BYTES, b"\n") * 2


def decode_identity(data: bytes) -> Identity:
    """Decodes the first intact copy in an identity file.

    Raises CorruptionError (damaged), ForeignDataError (not an identity file, or another version).
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
        return _decode_copy(data[:_COPY_BYTES])  # the first copy's error says more


def _decode_copy(data: bytes) -> Identity:
    line, _, rest = data.partition(b"\n")
    if not line.startswith(b"{"):
        raise ForeignDataError(f"the file {IDENTITY_FILE!r} is not the identity file of a bookie")
    if rest.strip() != f"{crc32c(line):08x}".encode():
        raise CorruptionError(
            f"the file {IDENTITY_FILE!r} does not match its checksum, so the owner of this storage "
            "is unknown; restore the file from a backup, or decommission the bookie (its entries "
            "are repaired from the other replicas) and format an empty directory"
        )
    fields = json.loads(line)
    version = fields.get("version")
    if version not in (STORAGE_VERSION, STORAGE_VERSION_OF_DATA_DIRECTORIES):
        raise ForeignDataError(
            f"the storage has format version {version}; this program reads {STORAGE_VERSION} and "
            f"{STORAGE_VERSION_OF_DATA_DIRECTORIES}"
        )
    try:
        identity = Identity(**fields)
        check_bookie_id(identity.bookie_id)
        check_region(identity.region)
    except (TypeError, InvalidArgumentError) as error:
        raise CorruptionError(f"the file {IDENTITY_FILE!r} is damaged: {error}") from error
    return identity


async def read_identity(disk: Disk) -> Identity:
    """Return the identity of the storage directory.

    Raises ForeignDataError if it was never formatted or has another format, CorruptionError.
    """
    try:
        file = await disk.open(IDENTITY_FILE)
    except FileNotFoundError:
        names = await disk.list("")
        raise ForeignDataError(
            "the directory was never formatted as a bookie's storage; format it first"
            if not [name for name in names if name not in _IGNORED]
            else f"the directory is not a bookie's storage (it holds {names[0][:80]!r})"
        ) from None
    try:
        return decode_identity(await file.read(0, _BYTES_MAX))
    finally:
        await file.close()


async def repair_identity(disk: Disk, identity: Identity) -> None:
    """Rewrites the file if one of its copies is damaged, or if it was removed since it was read.

    Raises DiskFullError, DiskFailedError.
    """
    data = b""
    with suppress(FileNotFoundError):
        file = await disk.open(IDENTITY_FILE)
        try:
            data = await file.read(0, _BYTES_MAX)
        finally:
            await file.close()
    if data != encode_identity(identity):
        await write_identity(disk, identity)


async def check_identity(identity: Identity, directory: BookieDirectory) -> None:
    """Compares the identity with the metadata store.

    Raises WrongClusterError if the store belongs to another cluster or knows another bookie with
    this id, MetadataError.
    """
    instance = await directory.global_instance_id()
    if instance != identity.instance_id:
        raise WrongClusterError(
            f"this storage belongs to cluster {identity.instance_id}; "
            f"the metadata store belongs to cluster {instance}"
        )
    cookie = await directory.read_cookie(identity.bookie_id)
    if cookie is None:
        raise WrongClusterError(
            f"bookie {identity.bookie_id} has no cookie in the metadata store: it was "
            "decommissioned; format an empty directory to use it again"
        )
    if (cookie.bookie_id, cookie.instance_id) != (identity.bookie_id, identity.instance_id):
        raise WrongClusterError(
            f"the cookie of {identity.bookie_id} in the metadata store belongs to another bookie"
        )
    region = await directory.region_of(identity.bookie_id)
    if region != identity.region:
        raise WrongClusterError(
            f"bookie {identity.bookie_id} is in region {identity.region}; "
            f"the metadata store says {region}"
        )


async def check_regional_store(identity: Identity, regional: RegionalStore) -> None:
    """Raise WrongClusterError if the store is of another cluster or region, MetadataError."""
    if regional.record.region != identity.region:
        raise WrongClusterError(
            f"bookie {identity.bookie_id} is in region {identity.region}; the regional metadata "
            f"store is that of region {regional.record.region}"
        )
    instance = await regional.instance_id()
    if instance != identity.instance_id:
        raise WrongClusterError(
            f"this storage belongs to cluster {identity.instance_id}; "
            f"the regional metadata store belongs to cluster {instance}"
        )


async def introduce_to(directory: BookieDirectory, identity: Identity) -> None:
    """Record the bookie's region and cookie in a regional store (rule BKE-27). Safe to repeat.

    The global store is the one that says whether a bookie was decommissioned. Raises
    WrongClusterError if the store knows another bookie with this id, MetadataError.
    """
    await directory.record_region(identity.bookie_id, identity.region)
    await directory.write_cookie(cookie_of(identity))
