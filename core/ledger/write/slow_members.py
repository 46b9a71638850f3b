"""Decides when a writer leaves a bookie that stays slow compared with its peers (rule LED-25)."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...protocol.bookie_id import BookieId
from ...protocol.quorum import QuorumView
from ...runtime.primitives.lower_median import lower_median

_EASE = 2
"""A slow member must improve by this factor before it no longer counts as slow."""

_HOLD_DOUBLINGS_MAX = 4


@dataclass(frozen=True, slots=True)
class SlowRule:
    """The bounds of the decision, in milliseconds unless the name says otherwise."""

    factor: int
    """The latency of a slow member is at least this many times the median of the ensemble."""
    excess_ms_min: int
    """The latency of a slow member is at least this much above the median."""
    after_ms: int
    """The time for which a member must be slow without interruption."""
    hold_ms: int
    """The least time between two departures; it doubles with each of them, up to 16 times."""


class SlowMembers:
    """The members of one writer's ensemble that are slow, and since when."""

    __slots__ = ("_departures", "_next_ms", "_rule", "_since_ms")

    def __init__(self, rule: SlowRule) -> None:
        self._rule = rule
        self._since_ms: dict[BookieId, float] = {}
        self._next_ms = 0.0
        self._departures = 0

    def observe(self, waits_ms: Mapping[BookieId, float | None], now_ms: float) -> BookieId | None:
        """Take the recent latencies of the members; return the one to leave now, or None.

        A latency is the time beyond the round trip to the member's region, so that distance is not
        slowness. None means that it is not known: the member is then neither slow nor a peer. The
        slowest of several members is returned. If the writer does not leave it, it is returned
        again after ``after_ms``.
        """
        rule = self._rule
        median = median_ms(waits_ms)
        since_ms: dict[BookieId, float] = {}
        slowest: BookieId | None = None
        longest = 0.0
        for bookie, waited in waits_ms.items():
            if waited is None:
                continue
            ease = _EASE if bookie in self._since_ms else 1
            if waited * ease < rule.factor * median:
                continue
            if (waited - median) * ease < rule.excess_ms_min:
                continue
            since = since_ms[bookie] = self._since_ms.get(bookie, now_ms)
            if now_ms - since >= rule.after_ms and waited > longest:
                slowest, longest = bookie, waited
        self._since_ms = since_ms
        if slowest is None or now_ms < self._next_ms:
            return None
        self._next_ms = now_ms + rule.after_ms
        return slowest

    def on_left(self, bookie: BookieId, now_ms: float) -> None:
        """Record that the writer has left a member. The next one stays for ``hold_ms`` at least."""
        self._since_ms.pop(bookie, None)
        hold_ms = self._rule.hold_ms << min(self._departures, _HOLD_DOUBLINGS_MAX)
        self._departures += 1
        self._next_ms = now_ms + hold_ms


def median_ms(waits_ms: Mapping[BookieId, float | None]) -> float:
    """Return the lower median of the latencies that are known; of two members it is the peer's."""
    return lower_median(waited for waited in waits_ms.values() if waited is not None)


def is_no_weaker(before: QuorumView, after: QuorumView) -> bool:
    """Return whether an ensemble may take the place of another one only because it is faster.

    It must be legal, and robust, not fragile and in as many regions if the other one is (PLC-9).
    """
    return (
        after.is_legal()
        and after.is_robust() >= before.is_robust()
        and after.is_fragile() <= before.is_fragile()
        and len(after.known_regions()) >= len(before.known_regions())
    )
