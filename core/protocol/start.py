"""Where a reader may start in a stream. A ``Dlsn`` is a start, too."""

from dataclasses import dataclass

from .dlsn import Dlsn


@dataclass(frozen=True, slots=True)
class Earliest:
    """Start at the first record that is not truncated."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Start behind the last record that is visible now."""


@dataclass(frozen=True, slots=True)
class AtTxid:
    """Start at the first record with at least this txid, which may be appended later."""

    txid: int


@dataclass(frozen=True, slots=True)
class AtSequenceId:
    """Start at the record with this many records before it, truncated ones included."""

    sequence_id: int


Start = Earliest | Latest | AtTxid | AtSequenceId | Dlsn
"""Anything that a reader can start at."""

EARLIEST = Earliest()
"""Start at the first record that is not truncated."""
LATEST = Latest()
"""Start behind the last record that is visible now."""
