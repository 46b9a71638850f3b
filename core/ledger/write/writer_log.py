"""Log lines of a ledger writer: a changed ensemble, and the end of the writer."""

from collections.abc import Mapping, Sequence

from ...protocol.bookie_id import BookieId
from ...protocol.errors import ClosedError, OwnershipLostError, RhumblineError
from ...protocol.ledger_metadata import LedgerMetadata
from ...runtime.event_log import EventLog
from ...runtime.state_machine import StateMachine
from .slow_members import median_ms
from .writer_life import WriterEvent, WriterLife

_LOG = EventLog(__name__)


def log_change(
    ledger_id: int, old: Sequence[BookieId], metadata: LedgerMetadata, min_regions: int
) -> None:
    """Log that the metadata now names another ensemble than ``old``, or another R."""
    fragment = metadata.last_fragment
    _LOG.warning(
        "ensemble changed",
        ledger=ledger_id,
        first_entry=fragment.first_entry_id,
        removed=[bookie for bookie in old if bookie not in fragment.bookies],
        added=[bookie for bookie in fragment.bookies if bookie not in old],
        min_regions=min_regions,
    )


def log_slow_bookie(
    ledger_id: int, bookie: BookieId, waits_ms: Mapping[BookieId, float | None]
) -> None:
    """Log that the writer left a bookie that was slow for too long."""
    _LOG.warning(
        "slow bookie left",
        ledger=ledger_id,
        bookie=bookie,
        latency_ms=round(waits_ms[bookie] or 0.0),
        median_ms=round(median_ms(waits_ms)),
    )


def log_failure(
    ledger_id: int, error: RhumblineError, machine: StateMachine[WriterLife, WriterEvent]
) -> None:
    """Log the end of a writer with its story, unless its owner closed it."""
    if isinstance(error, OwnershipLostError):
        _LOG.warning("ledger writer fenced", machine=machine, ledger=ledger_id, error=error)
    elif not isinstance(error, ClosedError):
        _LOG.warning("ledger writer failed", machine=machine, ledger=ledger_id, error=error)
