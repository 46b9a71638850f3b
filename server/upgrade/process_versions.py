"""The running processes of a cluster with the feature levels that each knows (rules UPG-2, UPG-3).

::

    /rhumbline/processes/<id>    ephemeral: kind, name, version and known levels of a process

A program that does not know levels has no such node. It is found as a bookie or in the list of
servers, and counts as one that knows the first level alone.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ...core.metadata.cluster_layout import READ_ONLY_NAME, Paths
from ...core.metadata.feature_levels import KNOWN_LEVELS, LevelRange
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import CorruptionError, ForeignDataError, NoNodeError
from ...core.protocol.installation import installed_version
from ...core.protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ...core.runtime.metadata_store import MetadataReads
from ..server_directory import ROOT as SERVERS
from ..server_directory import ServerRecord

PROCESSES = "/rhumbline/processes"

BOOKIE = "bookie"

_FORMAT = 1
_FIELDS = {"kind": str, "name": str, "version": str, "oldest": int, "newest": int}
_UNKNOWN = LevelRange(1, 1)


class ProcessVersion(NamedTuple):
    """A running process, with the levels that its program knows."""

    kind: str
    """bookie, write-proxy, read-proxy, repair or archive."""
    name: str
    """Id of a bookie; host:port of another server."""
    version: str
    """Version of the program; empty if it does not say."""
    levels: LevelRange

    def __str__(self) -> str:
        version = self.version or "a version without feature levels"
        return f"{self.kind} {self.name} ({version}, levels {self.levels})"

    def encode(self) -> bytes:
        """Return the value of the process's node."""
        fields = {"kind": self.kind, "name": self.name, "version": self.version}
        return encode_metadata_record(_FORMAT, {**fields, **self.levels._asdict()})

    @classmethod
    def decode(cls, data: bytes) -> "ProcessVersion":
        """Decode the value of a process's node. Raises CorruptionError, ForeignDataError."""
        found = decode_metadata_record(
            "a running process", data, version=_FORMAT, fields=_FIELDS, ignores_unknown=True
        )
        levels = LevelRange(found["oldest"], found["newest"])
        return cls(found["kind"], found["name"], found["version"], levels)


def this_process(kind: str, name: str, known: LevelRange = KNOWN_LEVELS) -> ProcessVersion:
    """Return the version of this process."""
    return ProcessVersion(kind, name, installed_version(), known)


async def list_process_versions(store: MetadataReads) -> list[ProcessVersion]:
    """Return all running servers of a cluster in order, those without levels included.

    Names are not unique: repair processes of two hosts may have the same local address, and a
    process that was killed is registered beside its successor until its session ends. So each
    registration counts. ``store`` is the global metadata store. Raises MetadataUnavailableError.
    """
    found = []
    for value in await _values(store, PROCESSES):
        try:
            process = ProcessVersion.decode(value)
        except (CorruptionError, ForeignDataError):
            process = ProcessVersion("process", "of another version", "", _UNKNOWN)
        found.append(process)
    known = Counter((one.kind, one.name) for one in found)
    present = Counter((BOOKIE, name) for name in await _bookies(store))
    present.update([_server(value) for value in await _values(store, SERVERS)])
    for kind, name in (present - known).elements():
        found.append(ProcessVersion(kind, name, "", _UNKNOWN))
    return sorted(found)


def older_than(processes: list[ProcessVersion], level: int) -> list[str]:
    """Return those that do not know a level, as text."""
    return [str(one) for one in processes if not one.levels.oldest <= level <= one.levels.newest]


def name_of_server(record: ServerRecord) -> str:
    """Return the name under which a server registers its version."""
    return record.address or record.status_address


def _server(value: bytes) -> tuple[str, str]:
    try:
        record = ServerRecord.decode("", value)
    except (CorruptionError, ForeignDataError):
        return "server", "of another version"
    return record.kind, name_of_server(record)


async def _bookies(store: MetadataReads) -> list[str]:
    paths = Paths()
    found: list[str] = []
    for parent in (paths.available, paths.read_only):
        try:
            found += [name for name in await store.children(parent) if name != READ_ONLY_NAME]
        except NoNodeError:
            continue
    return found


async def _values(store: MetadataReads, parent: str) -> list[bytes]:
    try:
        names = await store.children(parent)
    except NoNodeError:
        return []
    values = await store.get_all([f"{parent}/{name}" for name in names])
    return [value.data for value in values if value is not None]


def nodes_of_bookie(bookie: BookieId, known: LevelRange = KNOWN_LEVELS) -> Mapping[str, bytes]:
    """Return the ephemeral nodes of a bookie, by parent, besides its registration."""
    return {PROCESSES: this_process(BOOKIE, bookie, known).encode()}


def nodes_of(server: ServerRecord, known: LevelRange = KNOWN_LEVELS) -> Mapping[str, bytes]:
    """Return the ephemeral nodes of a server, by parent."""
    process = this_process(server.kind, name_of_server(server), known)
    return {PROCESSES: process.encode(), SERVERS: server.encode()}
