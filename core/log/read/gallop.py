"""A search for the first number in a range that meets a condition, fast near the range's start.

This is galloping search: the condition is tested at the first number, then at doubling distances,
then by bisection. A result close to the start takes few tests, any other at most twice the
logarithm of the length.
"""


class Gallop:
    """A search for the first number from ``low`` to ``end`` - 1 where a condition holds.

    From there on the condition must hold for every number.
    """

    __slots__ = ("_end", "_low", "_step")

    def __init__(self, low: int, end: int) -> None:
        assert low <= end
        self._low = low
        self._end = end  # it holds here, or this is the end of the range
        self._step: int | None = 1  # None: halve

    @property
    def probe(self) -> int | None:
        """The number to examine next; None once the search is over."""
        if self._low >= self._end:
            return None
        if self._step is None:
            return (self._low + self._end) // 2
        return min(self._low + self._step, self._end) - 1

    def answer(self, *, holds: bool) -> None:
        """Tell whether the condition holds for ``probe``."""
        examined = self.probe
        assert examined is not None
        if holds:
            self._end, self._step = examined, None
        else:
            self._low = examined + 1
            if self._step is not None:
                self._step *= 2

    @property
    def found(self) -> int:
        """The first number for which the condition holds; ``end`` if there is none."""
        assert self.probe is None
        return self._end
