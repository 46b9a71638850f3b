"""Limbo: the state of ledgers for which this bookie may have lost acknowledged data (rule BKE-16).

Limbo begins when a file is missing or has an unreadable part, or when the operating system went
down and the last group is damaged (an honest disk tore an unacknowledged write; another disk may
have lost more). While a ledger is in limbo, the entries that are found are served, "never had it"
becomes "unknown", and plain adds are refused, because a fence may be among the lost records (bugs
B15, B16).

Ledgers that are created later are not in limbo. The ledger ids of a metadata store only rise, so an
id that it allocates after the damage is an upper bound of its ledgers. Until every store has
allocated one, every ledger is in limbo. The ledgers of a store that is not known here stay in
limbo.
"""

from ..metadata.ledger_ids import store_number_of


class Limbo:
    """The set of ledgers that are in limbo."""

    __slots__ = ("bounds", "cleared", "is_active")

    def __init__(self) -> None:
        self.is_active = False
        self.bounds: dict[int, int] = {}
        """For each metadata store by its number: its ledgers with this id or a higher one are not
        in limbo. Empty if no bound is known yet."""
        self.cleared: dict[int, None] = {}
        """Ledgers below the bound that have left limbo (limbo_recovery.py)."""

    def covers(self, ledger_id: int) -> bool:
        """Return whether the ledger is in limbo, so that a denial becomes "unknown"."""
        if not self.is_active or ledger_id in self.cleared:
            return False
        bound = self.bounds.get(store_number_of(ledger_id))
        return bound is None or ledger_id < bound

    def begin(self) -> None:
        """Puts all ledgers in limbo."""
        self.is_active = True
        self.bounds.clear()
        self.cleared.clear()

    def end(self) -> None:
        """Ends limbo for all ledgers."""
        self.is_active = False
        self.bounds.clear()
        self.cleared.clear()

    def limit(self, below: int) -> None:
        """Releases the ledgers from ``below`` on that are of the same metadata store."""
        assert self.is_active
        self.bounds[store_number_of(below)] = below

    def clear(self, ledger_id: int) -> None:
        """Releases a ledger from limbo."""
        if self.is_active:
            self.cleared[ledger_id] = None
