"""Start positions of a reader in a stream; a ``Dlsn`` is one too (rule STR-20)."""

from dataclasses import dataclass

from .dlsn import Dlsn, check_position
from .errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Earliest:
    """Start at the first record that is not truncated."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Start after the last record that is visible now."""


@dataclass(frozen=True, slots=True)
class AtTxid:
    """Start at the first record with at least this txid, which may be appended later."""

    txid: int


@dataclass(frozen=True, slots=True)
class AtSequenceId:
    """Start at the record with this many records before it, truncated ones included."""

    sequence_id: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """Start at the first record created at this time or later, which may be appended later.

    The time is the time of day in ms since the Unix epoch. Creation times never fall from record
    to record (rule STR-39).
    """

    created_ms: int


@dataclass(frozen=True, slots=True)
class AtEventTime:
    """Start at the first record whose event time is this time or later.

    The time is in ms since the Unix epoch. The creation time stands for the event time of a record
    without one. Event times may be in any order, but at most ``ahead_ms`` after the creation of
    their record: a record with a later event time may be missed (rule STR-39).
    """

    event_ms: int
    ahead_ms: int = 60_000


Start = Earliest | Latest | AtTxid | AtSequenceId | AtTime | AtEventTime | Dlsn
"""Every position at which a reader can start."""

EARLIEST = Earliest()
"""Start at the first record that is not truncated."""
LATEST = Latest()
"""Start after the last record that is visible now."""


def check_start(start: object) -> Start:
    """Return ``start`` if it is a start position. Raises InvalidArgumentError otherwise."""
    match start:
        case Earliest() | Latest():
            return start
        case Dlsn():
            return check_position(start)
        case AtTxid(number) | AtSequenceId(number) | AtTime(number):
            value: object = number
        case AtEventTime(number, ahead_ms):
            value = number if isinstance(ahead_ms, int) and ahead_ms >= 0 else None
        case str():
            is_named = start.upper() in ("EARLIEST", "LATEST")
            wanted = start.upper() if is_named else f"Dlsn.parse({start[:80]!r})"
            raise InvalidArgumentError(f"start {start[:80]!r} is text: use {wanted}")
        case _:
            raise InvalidArgumentError(
                f"start {start!r:.80} is not EARLIEST, LATEST, a Dlsn, an AtTxid, an "
                "AtSequenceId, an AtTime or an AtEventTime"
            )
    if not isinstance(value, int):
        raise InvalidArgumentError(f"start {start!r:.80} must consist of int values")
    return start
