"""The description of a stream from its metadata."""

from dataclasses import dataclass

from ...protocol.dlsn import Dlsn
from ...protocol.segments import Segment
from ..policy import StreamPolicy


@dataclass(frozen=True, slots=True)
class StreamDescription:
    """The metadata of a stream. Not an atomic snapshot: its parts were read one after another."""

    name: str
    created_ms: int
    policy: StreamPolicy
    follows_namespace: bool
    """True if ``policy`` is the policy of the namespace."""
    start: Dlsn
    """The first active position; everything below it was truncated."""
    epoch: int
    """The number of claims by writers so far."""
    segments: tuple[Segment, ...]
    identity: str = ""
    """A random value that tells streams of the same name apart."""
    stream_id: str = ""
    """The part of the identity that positions carry, see ``Dlsn``."""
    grace_ends_ms: int | None = None
    """Time of day in ms from which the first truncated segments may be purged; None if there are
    none."""

    is_sealed: bool = False
    """True if the stream accepts no records until it is unsealed."""

    metadata_age_ms: int | None = None
    """None if the metadata was current when it was read. Otherwise it may be old, because the
    metadata store was out of reach: the milliseconds since the store last confirmed anything."""

    @property
    def is_ended(self) -> bool:
        """True if the stream was ended, according to its completed segments."""
        return any(segment.ends_stream for segment in self.segments)

    @property
    def completed_records(self) -> int:
        """The number of records in completed segments, truncated ones included."""
        done = [segment for segment in self.segments if segment.is_completed]
        return done[-1].end_sequence_id if done else 0
