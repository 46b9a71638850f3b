"""Limbo: this bookie may have lost something that it acknowledged, and cannot say what.

It begins when a log had an unreadable region, or when the operating system went down and the last
group is damaged (an honest disk tore an unacknowledged write; another one may have lost more).
While a ledger is in limbo here, what is found is served, "never had it" becomes "unknown", and
plain adds are refused, because a fence may have been among the lost (bugs B15, B16).

Ledgers made later are not concerned: ids only rise, so an id drawn after the damage is a bound.
Until it is drawn, every ledger is in limbo.
"""


class Limbo:
    """Which ledgers are in limbo."""

    __slots__ = ("below", "cleared", "is_active")

    def __init__(self) -> None:
        self.is_active = False
        self.below: int | None = None
        """Ledgers with this id or a higher one are not concerned; None: not known yet."""
        self.cleared: dict[int, None] = {}
        """Ledgers below the bound whose end no longer hangs on us (limbo_keeper.py)."""

    def covers(self, ledger_id: int) -> bool:
        """Whether "never" has to be said as "unknown" for this ledger."""
        if not self.is_active or ledger_id in self.cleared:
            return False
        return self.below is None or ledger_id < self.below

    def begin(self, below: int | None) -> None:
        """Ledgers below ``below`` (None: all) are in limbo from now on; 0 ends it for all."""
        self.is_active = below != 0
        self.below = below
        self.cleared.clear()

    def clear(self, ledger_id: int) -> None:
        """This ledger is out of it."""
        if self.is_active:
            self.cleared[ledger_id] = None
