"""Policies: what a namespace or a stream is asked to be. Frozen values, kept in the metadata store.

A stream without a policy of its own follows its namespace's. A change takes effect at the next
segment, since a segment's ledger is made by one policy.
"""

from dataclasses import dataclass, field, replace
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
    """When buffered records leave as an entry: whichever comes first.

    ``FlushPolicy()`` is immediate: what was appended within one turn of the event loop leaves at
    its end. ``FlushPolicy(period_ms=10)`` is periodic: an entry leaves every 10 ms while records
    flow, and the first record after a pause does not wait. ``period_ms=None`` is by bytes alone
    (what is below them waits for ``flush()``).
    """

    period_ms: int | None = 0
    """Longest time that a record waits in the buffer; 0: not at all; None: no limit."""
    bytes_max: int = 128 * 1024
    """A buffer of this size leaves. Larger ones cost less per record and more memory."""
    visibility_ms: int = 0
    """How long acknowledged records may wait for a next data entry to make them visible to readers,
    before the bookies are told without one (which costs about as much as an entry)."""

    def __post_init__(self) -> None:
        _check_range("flush period_ms", self.period_ms, 0, 60_000)
        _check_range("flush visibility_ms", self.visibility_ms, 0, 60_000)
        _check_range("flush bytes_max", self.bytes_max, 1, FLUSH_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class StreamPolicy:
    """How a stream is stored and written."""

    quorum: Quorum = field(default_factory=lambda: Quorum(3, 3, 2))
    flush: FlushPolicy = field(default_factory=FlushPolicy)
    codec: Codec = Codec.NONE
    record_bytes_max: int = RECORD_BYTES_MAX
    roll_bytes: int = 512 << 20
    """A segment is followed by the next after this many bytes, or ``roll_ms`` after its start (an
    idle one too, once it holds a record)."""
    roll_ms: int = 2 * _HOUR_MS
    keepalive_ms: int | None = None
    """A writer that sent nothing for so long says that it lives, by an entry that applications do
    not see; None: it keeps still. It lets readers tell an idle writer from a dead one."""
    retention_ms: int | None = None
    """Segments completed longer ago than this are truncated; None: only by the application."""
    hot_retention_ms: int | None = None
    """How long after completion a segment keeps its ledger once it is archived; None: for good."""
    truncates_by_subscriptions: bool = False
    """Whether what every subscription has passed is truncated."""
    purge_grace_ms: int = _HOUR_MS
    """How long truncated segments keep their bytes, so that a mistake can be taken back."""
    regions: tuple[str, ...] = ()
    """The only regions whose bookies hold it, home first; () is global: all regions. Copies lie
    near the writer, or near home when the writer is in none of these regions."""

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
            raise InvalidArgumentError(f"regions {', '.join(self.regions)}: one is named twice")
        if self.regions and len(self.regions) < self.quorum.min_regions:
            raise InvalidArgumentError(
                f"R={self.quorum.min_regions} needs that many regions, and only "
                f"{', '.join(self.regions)} may be used"
            )

    def to_fields(self) -> dict[str, Any]:
        """Plain values for a metadata record."""
        q = self.quorum
        return {
            "quorum": [q.ensemble_size, q.write_quorum, q.ack_quorum, q.min_regions],
            "flush": [self.flush.period_ms, self.flush.bytes_max, self.flush.visibility_ms],
            "codec": self.codec.name.lower(),
            "record_bytes_max": self.record_bytes_max,
            "roll_bytes": self.roll_bytes,
            "roll_ms": self.roll_ms,
            "keepalive_ms": self.keepalive_ms,
            "retention_ms": self.retention_ms,
            "hot_retention_ms": self.hot_retention_ms,
            "truncates_by_subscriptions": self.truncates_by_subscriptions,
            "purge_grace_ms": self.purge_grace_ms,
            "regions": list(self.regions),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "StreamPolicy":
        """Reads ``to_fields``. Raises CorruptionError."""
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
        """The same with another flush policy."""
        return replace(self, flush=flush)


_MAY_BE_NONE = ("flush period_ms", "keepalive_ms", "retention_ms", "hot_retention_ms")


def _check_range(name: str, value: int | None, low: int, high: int) -> None:
    if value is None and name in _MAY_BE_NONE:
        return
    if type(value) is not int or not low <= value <= high:
        raise InvalidArgumentError(f"{name} is {value!r}: it must be between {low} and {high}")


assert FLUSH_BYTES_MAX * 3 < ENTRY_BYTES_MAX, "a full buffer with its columns must fit an entry"
