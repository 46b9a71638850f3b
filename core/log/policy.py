"""Stream policies: how a stream is stored, flushed, rolled and retained.

Policies are immutable values in the metadata store. A stream without its own policy uses the
policy of its namespace. A change takes effect at the next segment, because the ledger of a segment
is created with one policy (rule STR-8).
"""

import json
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

from ..protocol.bookie_id import check_region
from ..protocol.compression import Codec
from ..protocol.errors import CorruptionError, InvalidArgumentError
from ..protocol.metadata_record import fields_to_store
from ..protocol.placement import parse_spread_rule
from ..protocol.quorum import Quorum
from ..protocol.record_set import ENTRY_BYTES_MAX, RECORD_BYTES_MAX
from ..runtime.settings import check_settings, from_plain_value, plain_value, setting, settings_of

FLUSH_BYTES_MAX = RECORD_BYTES_MAX
_HOUR_MS = 3_600_000
_STORED_ALWAYS = ("quorum", "flush", "codec")  # later fields have defaults in older records
_MS_MAX = 100 * 366 * 24 * _HOUR_MS
_DECODED_MAX = 256
"""Number of decoded policies that are kept. Most streams have one of a few policies."""


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """The conditions under which buffered records are sent as an entry; the first one met applies.

    ``FlushPolicy()`` flushes immediately: records appended in one iteration of the event loop are
    sent together at its end. ``FlushPolicy(period_ms=10)`` flushes periodically: one entry
    every 10 ms while records arrive, and the first record after a pause is sent immediately.
    ``FlushPolicy(period_ms=None)`` flushes by size alone; a partly filled buffer is sent by
    ``flush()``.
    """

    period_ms: int | None = setting(
        0,
        "Longest time that a record waits in the buffer. 0: records are not delayed. none: no "
        "limit.",
        low=0,
        high=60_000,
        draws=(0, 0, 2, 20),
    )
    bytes_max: int = setting(
        128 * 1024,
        "Buffered bytes at which the buffer is sent. A larger buffer costs less CPU per record "
        "and more memory.",
        low=1,
        high=FLUSH_BYTES_MAX,
        draws=(200, 4000, 128 * 1024),
    )
    visibility_ms: int = setting(
        0,
        "Longest time that acknowledged records stay invisible to readers while no further "
        "data entry is sent. After it the writer sends an explicit LAC, which costs about as much "
        "as an entry.",
        low=0,
        high=60_000,
    )

    def __post_init__(self) -> None:
        check_settings(self, "flush policy", InvalidArgumentError)


@dataclass(frozen=True, slots=True)
class StreamPolicy:
    """The storage, flush, roll and retention settings of a stream."""

    quorum: Quorum = setting(
        Quorum(3, 3, 2),
        "Ensemble size, write quorum, ack quorum, and the number of regions that must acknowledge.",
    )
    flush: FlushPolicy = setting(FlushPolicy(), "When buffered records are sent as an entry.")
    codec: Codec = setting(Codec.NONE, "Compression of the body of each record set.")
    record_bytes_max: int = setting(
        RECORD_BYTES_MAX, "Maximum payload bytes of one record.", low=1, high=RECORD_BYTES_MAX
    )
    roll_bytes: int = setting(
        512 << 20,
        "Segment size after which the writer begins the next segment.",
        low=1,
        high=1 << 40,
        draws=(5_000, 50_000, 512 << 20),
    )
    roll_ms: int = setting(
        2 * _HOUR_MS,
        "Segment age after which the writer begins the next segment, even if the stream is "
        "idle. A segment without records is kept.",
        low=1,
        high=_MS_MAX,
        draws=(1_500, 10_000, 7_200_000),
    )
    keepalive_ms: int | None = setting(
        None,
        "Idle time after which a writer sends a keepalive, a control record that "
        "applications do not see. Readers use it to tell an idle writer from a dead one. none: no "
        "keepalives.",
        low=10,
        high=_MS_MAX,
    )
    retention_ms: int | None = setting(
        None,
        "Time after its completion at which the elected repair process truncates a segment. none: "
        "never by age.",
        low=1,
        high=_MS_MAX,
    )
    hot_retention_ms: int | None = setting(
        None,
        "Time after its completion at which an archived segment loses its ledger, so that "
        "only the archive keeps the data. none: never.",
        low=0,
        high=_MS_MAX,
    )
    archive_retention_ms: int | None = setting(
        None,
        "Time after its completion at which the archive of a segment is deleted. A segment that "
        "the stream still has keeps its archive. none: never.",
        low=0,
        high=_MS_MAX,
    )
    truncates_by_subscriptions: bool = setting(
        False, "Truncate records below the position of the slowest subscription."
    )
    purge_grace_ms: int = setting(
        _HOUR_MS,
        "Time between the truncation of a segment and the deletion of its ledger. A mistaken "
        "truncation can be undone during that time (stream untruncate).",
        low=0,
        high=_MS_MAX,
    )
    regions: tuple[str, ...] = setting(
        (),
        "The regions that may store the stream, home region first. Empty: all regions. Replicas "
        "are placed near the writer, or near the home region if the writer is in none of them.",
    )
    spread: tuple[str, ...] = setting(
        (),
        "Domains that the copies of each entry must lie in, as region:2,rack:3; the levels are "
        "region, zone, rack and host. Without this, copies are spread as far as possible. An "
        "ensemble that violates it is refused.",
    )

    def __post_init__(self) -> None:
        check_settings(self, "stream policy", InvalidArgumentError)
        for level, number in parse_spread_rule(self.spread).items():
            if number > self.quorum.write_quorum:
                raise InvalidArgumentError(
                    f"spread {level}:{number}: WQ={self.quorum.write_quorum} copies cannot lie in "
                    f"{number} domains"
                )
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

    @property
    def wants_retention(self) -> bool:
        """True if the policy wants data deleted without further requests."""
        return (
            self.retention_ms is not None
            or self.truncates_by_subscriptions
            or self.needs_archive_for_retention
        )

    @property
    def needs_archive_for_retention(self) -> bool:
        """True if the policy limits hot copies or archives, so that a cold store is needed."""
        return self.hot_retention_ms is not None or self.archive_retention_ms is not None

    def to_fields(self) -> dict[str, Any]:
        """Return the policy as plain values for a metadata record (rule UPG-5).

        The values of a nested policy are a list, which ends with the last one that differs from its
        default.
        """
        stored = fields_to_store(self, _STORED_ALWAYS)
        return {name: _stored_value(value) for name, value in stored.items()}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "StreamPolicy":
        """Create a policy from the values of ``to_fields``. Raises CorruptionError.

        Equal fields give the same object.
        """
        try:
            stored = json.dumps(fields)
        except RecursionError as error:
            raise CorruptionError("bad stream policy: its fields are nested too deeply") from error
        return _decoded(stored)

    def with_flush(self, flush: FlushPolicy) -> "StreamPolicy":
        """Return a copy with another flush policy."""
        return replace(self, flush=flush)


@lru_cache(maxsize=_DECODED_MAX)
def _decoded(stored: str) -> StreamPolicy:
    fields: dict[str, Any] = json.loads(stored)
    try:
        declared = settings_of(StreamPolicy)
        missing = [name for name in _STORED_ALWAYS if name not in fields]
        if missing:
            raise InvalidArgumentError(f"{', '.join(missing)} is missing")
        return StreamPolicy(
            **{name: from_plain_value(declared[name], fields[name]) for name in fields}
        )
    except (InvalidArgumentError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(f"bad stream policy: {error}: {str(fields)[:200]}") from error


def _stored_value(value: object) -> Any:  # noqa: ANN401 - the values of JSON
    plain = plain_value(value)
    if is_dataclass(value):
        defaults = [item.default for item in fields(value)]
        while plain and plain[-1] == defaults[len(plain) - 1]:
            plain.pop()
    return plain


def check_policy(policy: object, *, is_required: bool = False) -> None:
    """Raise InvalidArgumentError unless ``policy`` is one, or None if it is not required."""
    if not isinstance(policy, StreamPolicy) and (is_required or policy is not None):
        raise InvalidArgumentError(f"policy {policy!r:.80} is not a StreamPolicy")


assert FLUSH_BYTES_MAX * 3 < ENTRY_BYTES_MAX, "a full buffer with its columns must fit an entry"
