"""Start positions of a reader in a stream; a ``Dlsn`` is one too (rule STR-20)."""

from dataclasses import dataclass

from .dlsn import Dlsn


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


Start = Earliest | Latest | AtTxid | AtSequenceId | Dlsn
"""Every position at which a reader can start."""

EARLIEST = Earliest()
"""Start at the first record that is not truncated."""
LATEST = Latest()
"""Start after the last record that is visible now."""
