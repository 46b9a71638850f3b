"""Manifests: each lists the parts of an archived segment and links it to the previous segment.

Parts are an archive only once a manifest names them. The manifest is created with
``put_if_absent``; the parts of other attempts are garbage that the archiver deletes. A manifest is
sealed (rule ARC-21), and its link is a digest of everything before and in the segment (rule
ARC-22). ``archive_folder`` says where manifests and parts lie.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from ...core.protocol.dlsn import STREAM_ID_CHARACTERS
from ...core.protocol.errors import CorruptionError
from ..erase.erased_set import ErasedSet
from ..proof.sealed_json import decode_sealed, encode_sealed
from .archive_folder import ArchiveFolder

FORMAT = 5
"""Sealed and linked. Formats 1 to 4 were neither."""
MANIFEST_BYTES_MAX = 64 << 20
"""Largest manifest or relocation. Those of erased records can be large: they list record sets."""

CHAIN_START = ""
"""``previous_link`` of the first segment of a chain."""
_COMPACT = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Part:
    """One part file: its name in the folder, the records it covers, and its digests.

    ``footer_sha256`` covers the Parquet footer, its length and the magic number, so that readers of
    byte ranges verify the footer before they parse it. They verify each chunk that they read by
    its CRC, because the checksums of pages do not cover the headers of pages.
    """

    name: str
    first_entry_id: int
    last_entry_id: int
    first_txid: int
    last_txid: int
    record_count: int
    payload_bytes: int
    size_bytes: int
    sha256: str
    footer_sha256: str
    chunk_crcs: str = ""
    """CRC-32 of each column chunk, 8 hex digits each, row group after row group."""
    first_group: int = 0
    """First row group of the part in its file, which may hold the parts of other segments too."""
    group_count: int = 0
    """Number of its row groups; 0: the part is the whole file."""

    def encoded(self) -> dict[str, Any]:
        """Return the members of the part in a manifest or a relocation."""
        fields = asdict(self)
        if not self.group_count:
            del fields["first_group"], fields["group_count"]
        return fields


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of an archived segment.

    ``last_entry_id`` is that of the ledger, so its entry may hold control records only.
    Raises CorruptionError if the parts contradict the totals.
    """

    namespace: str
    stream: str
    stream_identity: str
    lssn: int
    last_entry_id: int
    record_count: int
    payload_bytes: int
    first_txid: int
    last_txid: int
    start_sequence_id: int
    created_ms: int
    completed_ms: int
    ends_stream: bool
    content_digest: str
    previous_link: str
    parts: tuple[Part, ...]
    doubt: str = ""
    """Not empty if an operator decided the segment's end: what may be missing (rule REC-19)."""
    policy: dict[str, Any] | None = None
    """The policy of the stream when the segment was archived, as metadata records store it; None:
    unknown."""
    erased: tuple[ErasedSet, ...] = ()
    """Record sets of which records were erased, in order of position. The totals and the content
    digest are those before the erasure."""

    def __post_init__(self) -> None:
        last = -1
        for part in self.parts:
            if not last < part.first_entry_id <= part.last_entry_id <= self.last_entry_id:
                raise CorruptionError(
                    f"manifest of segment {self.lssn}: part {part.name} holds entries "
                    f"{part.first_entry_id} to {part.last_entry_id}, not within {last + 1} to "
                    f"{self.last_entry_id}"
                )
            last = part.last_entry_id
        total = self.stored_records + self.erased_count
        if total != self.record_count:
            raise CorruptionError(
                f"manifest of segment {self.lssn}: the parts hold {total} records, not "
                f"{self.record_count}"
            )

    @property
    def erased_count(self) -> int:
        """The number of records that were erased."""
        return sum(one.erased_count for one in self.erased)

    @property
    def stored_records(self) -> int:
        """The number of records that were not erased."""
        return sum(part.record_count for part in self.parts)

    @property
    def stream_id(self) -> str:
        """The part of the identity that segments and positions of the stream carry."""
        return self.stream_identity[:STREAM_ID_CHARACTERS]

    @property
    def link(self) -> str:
        """The digest of the chain up to this segment.

        It covers everything that readers know of a segment except its files. The files may
        therefore be written again, with the same records, without breaking the chain.
        """
        covered = (
            self.previous_link, self.namespace, self.stream, self.stream_identity, self.lssn,
            self.last_entry_id, self.record_count, self.payload_bytes, self.first_txid,
            self.last_txid, self.start_sequence_id, self.created_ms, self.completed_ms,
            self.ends_stream, self.content_digest, self.doubt,
        )  # fmt: skip
        return hashlib.sha256(_COMPACT.encode(covered).encode()).hexdigest()

    @property
    def folder(self) -> ArchiveFolder:
        """The place of the stream's archive."""
        return ArchiveFolder(self.namespace, self.stream, self.stream_id)

    @property
    def key(self) -> str:
        """The key of the manifest."""
        return self.folder.manifest(self.lssn)

    def part_key(self, part: Part) -> str:
        """Return the key of a part."""
        return self.folder.part(part.name)

    def follows(self, previous: "Manifest") -> bool:
        """True if this segment directly follows ``previous`` in the chain of the same stream."""
        return (
            self.lssn == previous.lssn + 1
            and self.stream_identity == previous.stream_identity
            and self.previous_link == previous.link
            and self.start_sequence_id == previous.start_sequence_id + previous.record_count
        )

    def encode(self) -> bytes:
        """Return the content of the manifest file: sealed JSON with one field a line."""
        parts = [part.encoded() for part in self.parts]
        fields = {**asdict(self), "parts": parts, "link": self.link}
        fields["erased"] = [one.encoded() for one in self.erased]
        if not self.erased:
            del fields["erased"]
        if not self.doubt:
            del fields["doubt"]
        if self.policy is None:
            del fields["policy"]
        return encode_sealed(FORMAT, fields)

    @classmethod
    def decode(cls, data: bytes) -> "Manifest":
        """Decode a manifest file. Raises CorruptionError; ForeignDataError for another format."""
        fields = decode_sealed("archive manifest", FORMAT, data)
        try:
            link = fields.pop("link")
            parts = tuple(Part(**part) for part in fields.pop("parts"))
            erased = tuple(map(ErasedSet.decode, fields.pop("erased", ())))
            manifest = cls(**fields, parts=parts, erased=erased)
        except (TypeError, KeyError, AttributeError) as error:
            raise CorruptionError(f"not an archive manifest: {error}") from error
        if manifest.link != link:
            raise CorruptionError(f"the archive manifest has the link {link}, not {manifest.link}")
        return manifest
