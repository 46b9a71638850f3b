"""Reads by measured latency: order, speculation and its budget, replicas that sink and come back.

Order: replicas in trouble after all others, those of regions that are offline last. Among the
rest our own region first, then by the region's median latency; random among equals. Then the second
try is moved to another rack, the third to another region.

Speculation: another replica is asked when one has been silent for longer than the 99th percentile
of its region's first answers (at least ``floor_ms``), twice as long for each further one. A replica
that turns slow must not raise its own percentile until nobody is asked besides it any more, so the
wait is also at most ``_MEDIANS_MAX`` medians, and ``local_ms_max`` in our own region. Every
question earns a share of an extra request; who has none to spend waits on.

Trouble: a replica that failed, or was outrun by one asked later, sinks for ``sink_ms_min``, doubled
each time in a row. Afterwards one question goes to it; its answer decides for the others.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any

from ..core.ledger.read.read_order import ReadKind, ReplicaChoice
from ..core.protocol.bookie_id import BookieId, Region
from ..core.protocol.errors import ConfigurationError
from .latency_quantiles import Quantiles

_MEASURED_MIN = 20  # answers before a percentile of them means anything
_MEDIANS_MAX = 8  # slower than so many medians is slow, whatever the percentile has become
_KNOWN_MIN = 3  # and before a region counts as far: the first may have waited for a connection
_NOT_MEASURED_MS = 0.0  # a region that was never asked sorts as near: so it gets measured


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How reads speculate. Raises ConfigurationError naming every fault."""

    floor_ms: int = 10
    """No second request earlier than this."""
    unmeasured_ms: int = 500
    """Silence that is waited for where too little was measured."""
    local_ms_max: int = 100
    """No replica of our own region is waited for longer than this before another one is asked."""
    poll_silence_ms: int = 1_000
    """A long poll that stays silent this long is also sent to another replica: silence is what
    polls are for, so no percentile says what is too much."""
    tries_max: int = 3
    """Requests for one question, failures not counted; 1: no speculation."""
    extra_percent: int = 10
    """Extra requests in percent of questions; besides, ``extra_per_second``."""
    extra_per_second: int = 1
    """Extra requests that are allowed however few questions there are."""
    extra_burst: int = 10
    """Extra requests that may be saved up."""
    sink_ms_min: int = 1_000
    """How long a slow or failed replica is asked after all others, the first time; doubles."""
    sink_ms_max: int = 30_000
    """As ``sink_ms_min``, the longest time."""

    def __post_init__(self) -> None:
        faults = [f"{f.name} is negative" for f in fields(self) if getattr(self, f.name) < 0]
        if self.tries_max < 1:
            faults.append("tries_max is below 1")
        if self.sink_ms_min > self.sink_ms_max:
            faults.append("sink_ms_min is above sink_ms_max")
        if faults:
            raise ConfigurationError("reads: " + "; ".join(faults))


@dataclass(slots=True)
class _Trouble:
    until: float = 0.0
    times: int = 0
    probed_until: float = 0.0


@dataclass(slots=True)
class ReadCounts:
    """Plain counters for metrics."""

    questions: int = 0
    extra: int = 0
    extra_denied: int = 0
    extra_won: int = 0
    sunk: int = 0
    came_back: int = 0
    answers_by_region: dict[str, int] = field(default_factory=dict)


class RegionReads:
    """The ``ReadPolicy`` of a process in region ``own``. ``rack_of`` and ``is_offline`` are asked
    synchronously, so they answer from what is known here."""

    def __init__(
        self,
        own: Region | None,
        random: Random,
        settings: ReadSettings | None = None,
        *,
        rack_of: Callable[[BookieId], str | None] = lambda _: None,
        is_offline: Callable[[str | None], bool] = lambda _: False,
    ) -> None:
        self.counts = ReadCounts()
        self._own = own
        self._random = random
        self._settings = settings or ReadSettings()
        self._rack_of = rack_of
        self._is_offline = is_offline
        self._loop = asyncio.get_running_loop()
        self._latencies: dict[str | None, Quantiles] = {}
        self._troubles: dict[BookieId, _Trouble] = {}
        self._budget = float(self._settings.extra_burst)
        self._budget_at = self._loop.time()

    # --- order ----------------------------------------------------------------------------------

    def order(self, choices: Sequence[ReplicaChoice]) -> list[ReplicaChoice]:
        """See ReadPolicy."""
        now = self._loop.time()
        shuffled = list(choices)
        self._random.shuffle(shuffled)
        keys = {choice: self._key(choice, now) for choice in shuffled}
        found = sorted(shuffled, key=lambda choice: keys[choice])
        tier = keys[found[0]][0] if found else 0
        self._spread(found, sum(1 for choice in found if keys[choice][0] == tier))
        if found and (trouble := self._troubles.get(found[0].bookie)) is not None:
            trouble.probed_until = now + self._settings.sink_ms_max / 1000
        return found

    def _key(self, choice: ReplicaChoice, now: float) -> tuple[int, float]:
        trouble = self._troubles.get(choice.bookie)
        tier = 0
        if self._is_offline(choice.region):
            tier = 2
        elif trouble is not None and (now < trouble.until or now < trouble.probed_until):
            tier = 1
        if choice.region is not None and choice.region == self._own:
            return tier, -1.0
        known = self._latencies.get(choice.region)
        if known is None or known.count < _KNOWN_MIN:
            return tier, _NOT_MEASURED_MS
        return tier, known.quantile(0.5) or _NOT_MEASURED_MS

    def _spread(self, found: list[ReplicaChoice], healthy: int) -> None:
        """The second try in another rack than the first, the third in a region of its own."""
        if healthy < 2:
            return
        first = self._place(found[0])
        self._pull(found, 1, healthy, lambda choice: self._place(choice) != first)
        regions = {found[0].region, found[1].region}
        self._pull(found, 2, healthy, lambda choice: choice.region not in regions)

    def _pull(
        self,
        found: list[ReplicaChoice],
        to: int,
        end: int,
        suits: Callable[[ReplicaChoice], bool],
    ) -> None:
        for place in range(to, end):
            if suits(found[place]):
                found.insert(to, found.pop(place))
                return

    def _place(self, choice: ReplicaChoice) -> tuple[str | None, str | None]:
        return choice.region, self._rack_of(choice.bookie)

    # --- speculation ----------------------------------------------------------------------------

    def silence_ms(self, kind: ReadKind, choice: ReplicaChoice, asked: int) -> float:
        """See ReadPolicy."""
        settings = self._settings
        if asked >= settings.tries_max:
            return 0.0
        if kind is ReadKind.POLL:
            base: float = settings.poll_silence_ms
        else:
            base = max(settings.floor_ms, self._usual_ms(choice.region))
        return float(base * 2 ** max(0, asked - 1))

    def _usual_ms(self, region: str | None) -> float:
        """How long an answer from a region takes when nothing is wrong."""
        known = self._latencies.get(region)
        usual_ms: float = self._settings.unmeasured_ms
        if known is not None and known.count >= _MEASURED_MIN:
            median, p99 = known.quantile(0.5), known.quantile(0.99)
            assert median is not None
            assert p99 is not None
            usual_ms = min(p99, _MEDIANS_MAX * median)
        if region is not None and region == self._own:
            usual_ms = min(usual_ms, self._settings.local_ms_max)
        return usual_ms

    def may_ask_more(self, kind: ReadKind) -> bool:
        """See ReadPolicy."""
        now = self._loop.time()
        self._earn((now - self._budget_at) * self._settings.extra_per_second)
        self._budget_at = now
        if self._budget < 1:
            self.counts.extra_denied += 1
            return False
        self._budget -= 1
        self.counts.extra += 1
        return True

    def _earn(self, amount: float) -> None:
        self._budget = min(self._settings.extra_burst, self._budget + amount)

    # --- what happened --------------------------------------------------------------------------

    def on_answer(self, kind: ReadKind, choice: ReplicaChoice, took_ms: float, asked: int) -> None:
        """See ReadPolicy."""
        self.counts.questions += 1
        self._earn(self._settings.extra_percent / 100)
        region = choice.region or "unknown"
        self.counts.answers_by_region[region] = self.counts.answers_by_region.get(region, 0) + 1
        if self._troubles.pop(choice.bookie, None) is not None:
            self.counts.came_back += 1
        if kind is ReadKind.ENTRY:
            latencies = self._latencies.get(choice.region)
            if latencies is None:
                latencies = self._latencies[choice.region] = Quantiles()
            latencies.record(took_ms)

    def on_failure(self, choice: ReplicaChoice) -> None:
        """See ReadPolicy."""
        self._sink(choice.bookie)

    def on_outrun(self, choice: ReplicaChoice) -> None:
        """See ReadPolicy."""
        self.counts.extra_won += 1
        self._sink(choice.bookie)

    def _sink(self, bookie: BookieId) -> None:
        now = self._loop.time()
        trouble = self._troubles.setdefault(bookie, _Trouble())
        if now < trouble.until:
            return  # requests that were on their way when it began say nothing new
        lasts_ms = min(
            self._settings.sink_ms_max, self._settings.sink_ms_min * 2 ** min(trouble.times, 16)
        )
        trouble.times += 1
        trouble.until = now + lasts_ms / 1000
        trouble.probed_until = 0.0
        self.counts.sunk += 1

    # --- what is known --------------------------------------------------------------------------

    def statistics(self) -> dict[str, Any]:
        """Counters and latencies (ms) by region of the replica, for metrics."""
        counts = self.counts
        return {
            "questions": counts.questions,
            "extra": counts.extra,
            "extra_denied": counts.extra_denied,
            "extra_won": counts.extra_won,
            "sunk": counts.sunk,
            "came_back": counts.came_back,
            "answers_by_region": dict(sorted(counts.answers_by_region.items())),
            "latency_ms": {
                str(region): {"p50": known.quantile(0.5), "p99": known.quantile(0.99)}
                for region, known in sorted(self._latencies.items(), key=lambda pair: str(pair[0]))
            },
        }
