"""What the metadata store says of a stream, in one value."""

from dataclasses import dataclass

from ...protocol.dlsn import Dlsn
from ...protocol.segments import Segment
from ..policy import StreamPolicy


@dataclass(frozen=True, slots=True)
class StreamDescription:
    """A stream as metadata sees it; not a snapshot: parts were read one after the other."""

    name: str
    created_ms: int
    policy: StreamPolicy
    follows_namespace: bool
    """Whether the policy is the namespace's."""
    start: Dlsn
    """What is below was truncated."""
    epoch: int
    """How many writers have claimed the stream."""
    segments: tuple[Segment, ...]
    identity: str = ""
    """Differs when a stream is deleted and made again under its name; "" if a proxy was asked."""

    @property
    def is_ended(self) -> bool:
        """Whether its application ended it, as far as completed segments say."""
        return any(segment.ends_stream for segment in self.segments)

    @property
    def completed_records(self) -> int:
        """Records in completed segments, truncated ones included."""
        done = [segment for segment in self.segments if segment.is_completed]
        return done[-1].end_sequence_id if done else 0
