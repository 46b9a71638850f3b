"""Decides which share of the time background work may take, by the delay that it causes to commits.

Background work, such as reads from files, competes with commits for the disk and the CPU, also with
the work of other processes there. How much it delays them cannot be known in advance, so it is
measured (rule BKE-34): a commit is late if it takes much longer than groups of that size took while
no background work ran. A late commit makes the share smaller at once; while none is late, it grows
slowly. Times are those of the event loop.
"""

SHARE_MIN = 0.05
"""The smallest share: background work never stops."""
_SHRINK = 0.7
_GROW_PER_S = 0.1
_LATE_RATIO = 2
_LATE_EXCESS_S = 0.002
"""The duration of a sync varies by as much on a busy machine."""
_ACTIVE_S = 0.1
"""Time after background work in which a commit is compared, and not learned from."""
_IDLE_S = 0.5
"""Time without commits after which background work may take all of the time."""
_QUIET_WEIGHT = 1 / 16
_OUTLIER_RATIO = 4
_FALL_WEIGHT = 1 / 8
_RISE_WEIGHT = 1 / 2048
_CLASS_BYTES = 4096
_CLASSES = 12
_REST_S_MAX = 0.25


class BackgroundPace:
    """The pace of the background work of one bookie."""

    __slots__ = ("_active_until_s", "_committed_s", "_share", "_usual_s")

    def __init__(self) -> None:
        self._share = 1.0
        self._committed_s = float("-inf")
        self._active_until_s = float("-inf")
        self._usual_s: list[float | None] = [None] * _CLASSES
        """Usual durations of commits by size: each class has twice the size of the one before."""

    def note_commit(self, took_s: float, now_s: float, size: int) -> None:
        """Records the duration of a commit of ``size`` bytes that has just ended."""
        since_s, self._committed_s = now_s - self._committed_s, now_s
        kind = min((size // _CLASS_BYTES).bit_length(), _CLASSES - 1)
        usual_s = self._usual_s[kind]
        if usual_s is None:
            self._usual_s[kind] = took_s
            return
        weight = _QUIET_WEIGHT
        if now_s <= self._active_until_s:
            weight = _FALL_WEIGHT if took_s < usual_s else _RISE_WEIGHT
            if took_s > _LATE_RATIO * usual_s + _LATE_EXCESS_S:
                self._share = max(SHARE_MIN, self._share * _SHRINK)
            else:
                self._share = min(1.0, self._share + _GROW_PER_S * min(since_s, _ACTIVE_S))
        learned_s = min(took_s, _OUTLIER_RATIO * usual_s + _LATE_EXCESS_S)
        self._usual_s[kind] = usual_s + weight * (learned_s - usual_s)

    def share(self, now_s: float) -> float:
        """Return the share of the time for background work: 1 while no commits arrive."""
        return 1.0 if now_s - self._committed_s > _IDLE_S else self._share

    def note_work(self, now_s: float) -> None:
        """Records that background work is running: commits are compared, and not learned from."""
        self._active_until_s = now_s + _ACTIVE_S

    def rest_s(self, worked_s: float, now_s: float) -> float:
        """Return how long to rest after ``worked_s`` of background work that has just ended."""
        self.note_work(now_s)
        return min(worked_s / self.share(now_s) - worked_s, _REST_S_MAX)
