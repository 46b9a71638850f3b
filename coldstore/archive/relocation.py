"""Relocations: they say in which files the records of segments lie now (rule ARC-60).

A manifest names the files that the archiver wrote, and never changes. Compaction writes the records
of several segments to one file, and then publishes a relocation with the new parts of all of them.
One object is created, so all of these segments move at the same moment. Relocations are numbered;
the newest one that names a segment applies. They hold nothing that readers believe without the
manifest: the manifest says which records the parts must hold.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...core.protocol.dlsn import STREAM_ID_CHARACTERS
from ...core.protocol.errors import CorruptionError, ForeignDataError, NoSuchObjectError
from ...core.runtime.cold_store import ColdStore
from ..erase.erased_set import ErasedSet
from ..proof.sealed_json import decode_sealed, encode_sealed
from .archive_folder import ArchiveFolder, parse_chain_key
from .manifest import MANIFEST_BYTES_MAX, Manifest, Part

FORMAT = 1
SEGMENTS_MAX = 1000
"""Maximum number of segments of one relocation, which keeps it below ``MANIFEST_BYTES_MAX``."""
ERASED_SETS_MAX = 100_000
"""Maximum number of erased sets of one relocation, unless a single file has more of them. A set has
about 120 bytes and 30 for each range of slots."""


@dataclass(frozen=True, slots=True)
class MovedSegment:
    """A segment after a relocation; ``link`` is that of its manifest."""

    lssn: int
    link: str
    parts: tuple[Part, ...]
    erased: tuple[ErasedSet, ...] = ()
    """All sets of the segment of which records were erased, also earlier."""

    @property
    def erased_count(self) -> int:
        """The number of records that were erased from the segment."""
        return sum(one.erased_count for one in self.erased)

    def encoded(self) -> dict[str, Any]:
        """Return the members of the object in a relocation."""
        fields: dict[str, Any] = {"lssn": self.lssn, "link": self.link}
        fields["parts"] = [part.encoded() for part in self.parts]
        if self.erased:
            fields["erased"] = [one.encoded() for one in self.erased]
        return fields

    @classmethod
    def decode(cls, fields: dict[str, Any]) -> "MovedSegment":
        """Return the segment that ``encoded`` describes."""
        parts = tuple(Part(**part) for part in fields["parts"])
        erased = tuple(map(ErasedSet.decode, fields.get("erased", ())))
        return cls(fields["lssn"], fields["link"], parts, erased)


@dataclass(frozen=True, slots=True)
class Erasure:
    """The author and the reason of an erasure. The segments of the relocation say which records."""

    erased_by: str
    reason: str
    """For example the number of a request; it must not repeat what was erased."""
    on_bookies: tuple[int, ...] | None = None
    """Segments of which bookies held copies when the erasure began, and from which nothing was
    erased there; None: the cluster was not asked."""

    def encoded(self) -> dict[str, Any]:
        """Return the member of a relocation."""
        fields: dict[str, Any] = {"erased_by": self.erased_by, "reason": self.reason}
        if self.on_bookies is not None:
            fields["on_bookies"] = list(self.on_bookies)
        return fields

    @classmethod
    def decode(cls, fields: dict[str, Any]) -> "Erasure":
        """Return the erasure that ``encoded`` describes."""
        held = fields.pop("on_bookies", None)
        return cls(**fields, on_bookies=None if held is None else tuple(held))


class ErasureLink(NamedTuple):
    """Names one relocation that erased records, and proves its content."""

    number: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Relocation:
    """The new parts of some segments of a stream."""

    namespace: str
    stream: str
    stream_identity: str
    number: int
    created_ms: int
    """When it was published: the files that it replaces are deleted a grace period later."""
    segments: tuple[MovedSegment, ...]
    erasure: Erasure | None = None
    """Not None if the relocation erases records. It is then kept for as long as the archive."""
    previous_erasure: ErasureLink | None = None
    """The erasure before this one; None if this is the first one, or none."""

    @property
    def folder(self) -> ArchiveFolder:
        """The place of the archive."""
        stream_id = self.stream_identity[:STREAM_ID_CHARACTERS]
        return ArchiveFolder(self.namespace, self.stream, stream_id)

    @property
    def key(self) -> str:
        """The key of the relocation."""
        return self.folder.relocation(self.number)

    @property
    def erasure_link(self) -> ErasureLink:
        """The number and the digest of this erasure, for the next one and for the tip."""
        return ErasureLink(self.number, hashlib.sha256(self.encode()).hexdigest())

    def encode(self) -> bytes:
        """Return the content of the object."""
        fields = {
            "namespace": self.namespace,
            "stream": self.stream,
            "stream_identity": self.stream_identity,
            "number": self.number,
            "created_ms": self.created_ms,
            "segments": [segment.encoded() for segment in self.segments],
        }
        if self.erasure is not None:
            fields["erasure"] = self.erasure.encoded()
        if self.previous_erasure is not None:
            fields["previous_erasure"] = list(self.previous_erasure)
        return encode_sealed(FORMAT, fields)

    @classmethod
    def decode(cls, data: bytes) -> "Relocation":
        """Decode a relocation. Raises CorruptionError; ForeignDataError for another format."""
        fields = decode_sealed("archive relocation", FORMAT, data)
        try:
            segments = tuple(map(MovedSegment.decode, fields.pop("segments")))
            erasure = fields.pop("erasure", None)
            cause = None if erasure is None else Erasure.decode(erasure)
            previous = fields.pop("previous_erasure", None)
            link = None if previous is None else ErasureLink(*previous)
            return cls(**fields, segments=segments, erasure=cause, previous_erasure=link)
        except (TypeError, KeyError, AttributeError) as error:
            raise CorruptionError(f"not an archive relocation: {error}") from error


class Relocations:
    """All relocations of a stream."""

    def __init__(self, relocations: Iterable[Relocation] = ()) -> None:
        """They are in ascending order."""
        self.known = tuple(relocations)
        self._newest = {
            segment.lssn: (one, segment) for one in self.known for segment in one.segments
        }

    @property
    def last_number(self) -> int:
        """The number of the newest relocation; 0 if there is none."""
        return self.known[-1].number if self.known else 0

    @property
    def last_erasure(self) -> Relocation | None:
        """The newest relocation that erased records, or None."""
        return next((one for one in reversed(self.known) if one.erasure is not None), None)

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the parts that the segment has now.

        Raises CorruptionError if the relocation is of another segment, or if its parts do not hold
        as many records as the manifest lists.
        """
        if manifest.lssn not in self._newest:
            return manifest
        relocation, segment = self._newest[manifest.lssn]
        if segment.link != manifest.link:
            raise CorruptionError(
                f"{relocation.key}: segment {segment.lssn} has the link {segment.link}, its "
                f"manifest {manifest.link}"
            )
        return replace(manifest, parts=segment.parts, erased=segment.erased)


async def listed_relocations(cold: ColdStore, folder: ArchiveFolder) -> list[int]:
    """Return the numbers of the relocations of a stream, ascending, from a listing alone."""
    parsed = map(parse_chain_key, await cold.list(folder.relocations))
    return sorted(key.relocation for key in parsed if key and key.relocation is not None)


async def read_relocation(cold: ColdStore, folder: ArchiveFolder, number: int) -> Relocation:
    """Return a relocation. Raises NoSuchObjectError, CorruptionError and ForeignDataError."""
    key = folder.relocation(number)
    data = await cold.get(key, 0, MANIFEST_BYTES_MAX + 1)
    try:
        relocation = Relocation.decode(data)
    except (CorruptionError, ForeignDataError) as error:
        raise type(error)(f"{key}: {error}") from error
    if (relocation.folder, relocation.number) != (folder, number):
        raise CorruptionError(f"{key}: the relocation is {relocation.key}")
    return relocation


async def read_relocations(
    cold: ColdStore, folder: ArchiveFolder, numbers: Sequence[int]
) -> Relocations:
    """Return relocations by number; those that were deleted meanwhile are left out.

    It does not notice a lost erasure: see ``stored_relocations``. Raises CorruptionError and
    ForeignDataError, which name the object.
    """
    found: list[Relocation] = []
    for number in sorted(numbers):
        try:
            found.append(await read_relocation(cold, folder, number))
        except NoSuchObjectError:
            continue  # newer ones name all of its segments
    return Relocations(found)
