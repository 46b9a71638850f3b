"""Storage event callbacks."""

from ..protocol.errors import RhumblineError
from .ledger_records import LedgerRecord


class StorageListener:
    """Callbacks for events in the storage, which run between awaits and must not block."""

    def ledgers_advanced(self, ledgers: list[LedgerRecord]) -> None:
        """Called when the LAC of ledgers with parked polls has risen."""

    def log_failed(self, error: RhumblineError) -> None:
        """Called when the log has failed: no add succeeds before a restart."""

    def space_ran_out(self, error: RhumblineError) -> None:
        """Called when the disk was too full for a group."""
