"""The work that one search for a layout may do, counted in steps instead of time."""

STEPS_MAX = 600
"""Steps of one search on an event loop: at most 5 ms."""

OFFLINE_STEPS_MAX = 2_000_000
"""Steps of one search where nothing waits for it, as in the planner."""


class SearchBudget:
    """Steps that are left to a search, and whether some search ended for the lack of them.

    Steps are counted, not timed, so that equal inputs have equal results.
    """

    __slots__ = ("left", "was_exceeded")

    def __init__(self, steps_max: int) -> None:
        self.left = steps_max
        self.was_exceeded = False

    def take(self, steps: int = 1) -> bool:
        """Use up steps; return False, and remember it, if there are none left."""
        if self.left < steps:
            self.left = 0
            self.was_exceeded = True
            return False
        self.left -= steps
        return True
