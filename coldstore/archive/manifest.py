"""Manifests: what an archived segment consists of, and the chain that joins segments.

A manifest is the only thing that makes parts an archive: until it is there (put if absent) there is
none, and parts of other attempts are litter. It names the previous segment's content digest, so
that a removed, swapped or shortened segment breaks the chain. Layout below a store's root::

    <namespace>/<stream>/lssn=<n>/part-<attempt>-<k>.parquet
    <namespace>/<stream>/lssn=<n>/manifest.json
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from ...core.protocol.errors import CorruptionError, ForeignDataError

FORMAT = 1
MANIFEST_BYTES_MAX = 4 << 20

CHAIN_START = ""
"""``previous_digest`` of the first segment of a chain."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part file: its key below the segment's folder, what it covers, and its proof."""

    name: str
    first_entry_id: int
    last_entry_id: int
    first_txid: int
    last_txid: int
    record_count: int
    payload_bytes: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """An archived segment. ``last_entry_id`` is the ledger's, control entries included."""

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
    previous_digest: str
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        last = -1
        for part in self.parts:
            if not last < part.first_entry_id <= part.last_entry_id <= self.last_entry_id:
                raise CorruptionError(
                    f"manifest of segment {self.lssn}: parts overlap or exceed it"
                )
            last = part.last_entry_id
        if sum(part.record_count for part in self.parts) != self.record_count:
            raise CorruptionError(f"manifest of segment {self.lssn}: parts do not add up")

    def follows(self, previous: "Manifest") -> bool:
        """Whether this is the next link of the chain after ``previous``."""
        return (
            self.lssn == previous.lssn + 1
            and self.stream_identity == previous.stream_identity
            and self.previous_digest == previous.content_digest
            and self.start_sequence_id == previous.start_sequence_id + previous.record_count
        )

    def encode(self) -> bytes:
        """The JSON file, one field a line."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Manifest":
        """Reads the file. Raises CorruptionError, ForeignDataError for a newer format."""
        try:
            fields: dict[str, Any] = json.loads(data)
            if fields.pop("format") != FORMAT:
                raise ForeignDataError("an archive manifest of another format: use a newer version")
            parts = tuple(Part(**part) for part in fields.pop("parts"))
            return cls(**fields, parts=parts)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptionError(f"not an archive manifest: {error}") from error


def segment_folder(namespace: str, stream: str, lssn: int) -> str:
    """The folder of a segment's files; folders sort like numbers."""
    return f"{namespace}/{stream}/lssn={lssn:019d}"


def manifest_key(namespace: str, stream: str, lssn: int) -> str:
    """The key of a segment's manifest."""
    return f"{segment_folder(namespace, stream, lssn)}/manifest.json"
