"""Limbo: the state of ledgers for which this bookie may have lost acknowledged data (rule BKE-16).

Limbo begins when a file is missing or has an unreadable region, or when the operating system went
down and the last group is damaged (an honest disk tore an unacknowledged write; another disk may
have lost more). While a ledger is in limbo, the entries that are found are served, "never had it"
becomes "unknown", and plain adds are refused, because a fence may be among the lost records (bugs
B15, B16).

Ledgers that are created later are not in limbo. Ledger ids only rise, so an id that is allocated
after the damage is an upper bound. Until that id is allocated, every ledger is in limbo.
"""


class Limbo:
    """The set of ledgers that are in limbo."""

    __slots__ = ("below", "cleared", "is_active")

    def __init__(self) -> None:
        self.is_active = False
        self.below: int | None = None
        """Ledgers with this id or a higher one are not in limbo; None if it is not known yet."""
        self.cleared: dict[int, None] = {}
        """Ledgers below the bound that have left limbo (limbo_recovery.py)."""

    def covers(self, ledger_id: int) -> bool:
        """Return whether the ledger is in limbo, so that a denial becomes "unknown"."""
        if not self.is_active or ledger_id in self.cleared:
            return False
        return self.below is None or ledger_id < self.below

    def begin(self, below: int | None) -> None:
        """Puts all ledgers below ``below`` (None: all ledgers) in limbo; 0 ends limbo for all."""
        self.is_active = below != 0
        self.below = below
        self.cleared.clear()

    def clear(self, ledger_id: int) -> None:
        """Releases a ledger from limbo."""
        if self.is_active:
            self.cleared[ledger_id] = None
