"""The usual interval between updates of a ledger, by which a long poll's silence is judged.

A hung bookie looks like a ledger without new entries, except for the rhythm of the ledger: if
updates arrived every millisecond, 20 ms of silence are suspicious.
"""

_FLOOR_MS = 20.0
_GAPS_MIN = 8
"""Gaps before the rhythm counts."""
_MEAN_WEIGHT = 1 / 8
_DEVIATION_WEIGHT = 1 / 4
_DEVIATIONS = 4
_DOUBT = 2.0
"""With less, healthy replicas are overtaken now and then, by replicas in other regions too."""


class NewsRhythm:
    """Smoothed mean and mean deviation of the gaps, as TCP keeps them of round trips (RFC 6298).

    As there, a delayed sample does not count: a bookie that hangs would otherwise make the ledger
    look slower each time, and thus be waited for longer each time. Times are those of the event
    loop, in seconds.
    """

    __slots__ = ("_count", "_deviation_ms", "_mean_ms", "_noted_s")

    def __init__(self) -> None:
        self._noted_s: float | None = None
        self._count = 0
        self._mean_ms = 0.0
        self._deviation_ms = 0.0

    def note(self, now_s: float, *, is_delayed: bool = False) -> None:
        """Records that news arrived. ``is_delayed``: by a silent replica."""
        if self._noted_s is not None and not is_delayed:
            gap_ms = (now_s - self._noted_s) * 1000
            if self._count == 0:
                self._mean_ms, self._deviation_ms = gap_ms, gap_ms / 2
            else:
                error_ms = abs(gap_ms - self._mean_ms)
                self._deviation_ms += _DEVIATION_WEIGHT * (error_ms - self._deviation_ms)
                self._mean_ms += _MEAN_WEIGHT * (gap_ms - self._mean_ms)
            self._count += 1
        self._noted_s = now_s

    @property
    def silence_ms(self) -> float | None:
        """The silence that is longer than usual, None if too little is known."""
        if self._count < _GAPS_MIN:
            return None
        usual_ms = self._mean_ms + _DEVIATIONS * self._deviation_ms
        return max(_FLOOR_MS, _DOUBT * usual_ms)
