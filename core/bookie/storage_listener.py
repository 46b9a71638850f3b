"""Whom a storage tells what happens to it."""

from ..protocol.errors import RhumblineError
from .ledger_records import LedgerRecord


class StorageListener:
    """Whom storage tells; the bookie. All are called between awaits and must not block."""

    def ledgers_advanced(self, ledgers: list[LedgerRecord]) -> None:
        """Ledgers with parked polls whose LAC has risen."""

    def log_failed(self, error: RhumblineError) -> None:
        """No add will ever succeed again until a restart."""

    def space_ran_out(self, error: RhumblineError) -> None:
        """A group found no space."""
