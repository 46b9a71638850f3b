"""A rate limit of losses that are declared because of silence (rule PRX-33). Pure."""

_LOSSES_MAX = 3
_REFILL_S = 2.0


class LossBudget:
    """Allows three losses at once, and one more every two seconds."""

    def __init__(self, now_s: float) -> None:
        self._losses = float(_LOSSES_MAX)
        self._at_s = now_s

    def take(self, now_s: float) -> bool:
        """Return whether one more loss may be declared, and count it."""
        self._losses = min(_LOSSES_MAX, self._losses + (now_s - self._at_s) / _REFILL_S)
        self._at_s = now_s
        if self._losses < 1:
            return False
        self._losses -= 1
        return True
