"""Stream policies: how a stream is stored, flushed, rolled and retained.

Policies are immutable values in the metadata store. A stream without its own policy uses the
policy of its namespace. A change takes effect at the next segment, because the ledger of a segment
is created with one policy (rule STR-8).
"""

from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from typing import Any

from ..protocol.bookie_id import check_region
from ..protocol.compression import Codec
from ..protocol.errors import CorruptionError, InvalidArgumentError
from ..protocol.quorum import Quorum
from ..protocol.record_set import ENTRY_BYTES_MAX, RECORD_BYTES_MAX

FLUSH_BYTES_MAX = RECORD_BYTES_MAX
_HOUR_MS = 3_600_000
_MS_MAX = 100 * 366 * 24 * _HOUR_MS


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """The conditions under which buffered records are sent as an entry; the first one met applies.

    ``FlushPolicy()`` flushes immediately: records appended in one iteration of the event loop are
    sent together at its end. ``FlushPolicy(period_ms=10)`` flushes periodically: one entry
    every 10 ms while records arrive, and the first record after a pause is sent immediately.
    ``FlushPolicy(period_ms=None)`` flushes by size alone; a partly filled buffer is sent by
    ``flush()``.
    """

    period_ms: int | None = 0
    """Longest time in ms that a record waits in the buffer. 0: records are not delayed. None: no
    limit."""
    bytes_max: int = 128 * 1024
    """Buffered bytes at which the buffer is sent. A larger buffer costs less CPU per record and
    more memory."""
    visibility_ms: int = 0
    """Longest time in ms that acknowledged records stay invisible to readers while no further data
    entry is sent. After it the writer sends an explicit LAC, which costs about as much as an
    entry."""

    def __post_init__(self) -> None:
        _check_range("flush period_ms", self.period_ms, 0, 60_000)
        _check_range("flush visibility_ms", self.visibility_ms, 0, 60_000)
        _check_range("flush bytes_max", self.bytes_max, 1, FLUSH_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class StreamPolicy:
    """The storage, flush, roll and retention settings of a stream."""

    quorum: Quorum = field(default_factory=lambda: Quorum(3, 3, 2))
    """Ensemble size, write quorum, ack quorum, and the number of regions that must acknowledge."""
    flush: FlushPolicy = field(default_factory=FlushPolicy)
    codec: Codec = Codec.NONE
    """Compression of the body of each record set."""
    record_bytes_max: int = RECORD_BYTES_MAX
    """Maximum payload bytes of one record."""
    roll_bytes: int = 512 << 20
    """Segment size in bytes after which the writer begins the next segment."""
    roll_ms: int = 2 * _HOUR_MS
    """Segment age in ms after which the writer begins the next segment, even if the stream is idle.
    A segment without records is kept."""
    keepalive_ms: int | None = None
    """Idle time in ms after which a writer sends a keepalive, a control record that applications
    do not see. Readers use it to tell an idle writer from a dead one. None: no keepalives."""
    retention_ms: int | None = None
    """Time in ms after its completion at which a segment is truncated. None: never by age."""
    hot_retention_ms: int | None = None
    """Time in ms after its completion at which an archived segment loses its ledger, so that only
    the archive keeps the data. None: never."""
    truncates_by_subscriptions: bool = False
    """True: records below the position of the slowest subscription are truncated."""
    purge_grace_ms: int = _HOUR_MS
    """Time in ms between the truncation of a segment and the deletion of its data. A mistaken
    truncation can be repaired during that time."""
    regions: tuple[str, ...] = ()
    """The regions that may store the stream, home region first. (): all regions. Replicas are
    placed near the writer, or near the home region if the writer is in none of these regions."""

    def __post_init__(self) -> None:
        _check_range("record_bytes_max", self.record_bytes_max, 1, RECORD_BYTES_MAX)
        _check_range("roll_bytes", self.roll_bytes, 1, 1 << 40)
        _check_range("roll_ms", self.roll_ms, 1, _MS_MAX)
        _check_range("keepalive_ms", self.keepalive_ms, 10, _MS_MAX)
        _check_range("retention_ms", self.retention_ms, 1, _MS_MAX)
        _check_range("hot_retention_ms", self.hot_retention_ms, 0, _MS_MAX)
        _check_range("purge_grace_ms", self.purge_grace_ms, 0, _MS_MAX)
        for name in self.regions:
            check_region(name)
        if len(set(self.regions)) != len(self.regions):
            raise InvalidArgumentError(
                f"regions {', '.join(self.regions)}: a region is listed twice"
            )
        if self.regions and len(self.regions) < self.quorum.min_regions:
            raise InvalidArgumentError(
                f"R={self.quorum.min_regions} needs at least {self.quorum.min_regions} regions, "
                f"the policy allows only {', '.join(self.regions)}"
            )

    def to_fields(self) -> dict[str, Any]:
        """Return the policy as plain values for a metadata record."""
        q, flush = self.quorum, self.flush
        return {
            "quorum": [q.ensemble_size, q.write_quorum, q.ack_quorum, q.min_regions],
            "flush": [flush.period_ms, flush.bytes_max, flush.visibility_ms],
            "codec": self.codec.name.lower(),
            **{name: getattr(self, name) for name in PLAIN_FIELDS},
            "regions": list(self.regions),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "StreamPolicy":
        """Create a policy from the values of ``to_fields``. Raises CorruptionError."""
        try:
            known = dict(fields)
            return cls(
                quorum=Quorum(*known.pop("quorum")),
                flush=FlushPolicy(*known.pop("flush")),
                codec=Codec[known.pop("codec").upper()],
                regions=tuple(known.pop("regions", ())),
                **known,
            )
        except (InvalidArgumentError, KeyError, TypeError, AttributeError) as error:
            raise CorruptionError(f"bad stream policy: {error}: {str(fields)[:200]}") from error

    def with_flush(self, flush: FlushPolicy) -> "StreamPolicy":
        """Return a copy with another flush policy."""
        return replace(self, flush=flush)


PLAIN_FIELDS = tuple(
    plain.name
    for plain in fields_of(StreamPolicy)
    if plain.name not in ("quorum", "flush", "codec", "regions")
)
"""The fields that every encoding of a policy copies under their own names."""

_MAY_BE_NONE = ("flush period_ms", "keepalive_ms", "retention_ms", "hot_retention_ms")


def _check_range(name: str, value: int | None, low: int, high: int) -> None:
    if value is None and name in _MAY_BE_NONE:
        return
    if type(value) is not int or not low <= value <= high:
        raise InvalidArgumentError(f"{name} {value!r} is not an integer between {low} and {high}")


assert FLUSH_BYTES_MAX * 3 < ENTRY_BYTES_MAX, "a full buffer with its columns must fit an entry"
