"""Reads by measured latency: replica order, speculative requests, and avoidance of slow replicas.

Order (rule PLC-20): *sunk* replicas, which are in trouble, come after all healthy ones, and
replicas of offline regions last. Among the rest the local region comes first, then regions by
median latency; ties are random. Then the second attempt is moved to another rack and the third to
another region.

Speculation (rule PLC-21): another replica is asked when one has been silent for longer than the
99th percentile of first responses from its region (at least ``floor_ms``), twice as long for each
further one. A replica that slows down must not raise its own percentile until no other replica is
asked any more. Therefore the wait is also at most ``_MEDIANS_MAX`` medians, and ``local_ms_max`` in
the own region. Every read earns a share of an extra request; without budget, the read waits.

Sinking (rule PLC-22): a replica that failed, or was overtaken by one asked later, is avoided for
``sink_ms_min``; the time doubles with each failure in a row. After that a single read probes it,
and the response decides for the others.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ..core.ledger.read_policy import ReadKind, ReplicaChoice
from ..core.protocol.bookie_id import BookieId, Region
from ..core.runtime.histogram import Histogram
from ..core.runtime.primitives.backoff import Backoff
from ..core.runtime.primitives.rate_limiter import RateLimiter
from ..core.runtime.settings import check_settings, setting

_MEASURED_MIN = 20  # responses before their percentiles are used
_MEDIANS_MAX = 8  # slower than this is slow, whatever the percentile is
_KNOWN_MIN = 3  # responses before the median counts; the first may include a connect
_LATENCY_STEPS = 4  # quantiles are at most 19 % too large, and quick to find
_LATENCY_DECAY = 1024  # a change of latency shows within some hundred responses
_NOT_MEASURED_MS = 0.0  # an unmeasured region sorts as near, so that it gets measured


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """Settings of speculative reads.

    Raises ConfigurationError that names every fault.
    """

    floor_ms: int = setting(
        10, "Minimum wait before a read is also sent to another replica.", low=0
    )
    unmeasured_ms: int = setting(
        500,
        "Wait before a read is also sent to another replica, while fewer than 20 latencies of the "
        "region are known.",
        low=0,
    )
    local_ms_max: int = setting(
        100,
        "Maximum wait for a replica in the local region before another replica is asked as well.",
        low=0,
    )
    poll_silence_ms: int = setting(
        1_000,
        "Longest wait before a long poll is also sent to another replica. The wait is shorter if "
        "new entries usually arrive more often.",
        low=0,
    )
    tries_max: int = setting(
        3,
        "Maximum number of requests for one read, not counting failed ones. 1 disables "
        "speculation.",
        low=1,
    )
    extra_percent: int = setting(
        10,
        "Extra requests allowed, in percent of reads, in addition to ``extra_per_second``.",
        low=0,
    )
    extra_per_second: int = setting(
        1, "Extra requests allowed per second, however few reads there are.", low=0
    )
    extra_burst: int = setting(10, "Maximum number of extra requests that can be saved up.", low=0)
    sink_ms_min: int = setting(
        1_000,
        "Time for which a slow or failed replica is asked after all others, the first time. It "
        "doubles with each consecutive failure, up to ``sink_ms_max``, with a jitter of up to half "
        "of it in either direction.",
        low=0,
        not_above="sink_ms_max",
    )
    sink_ms_max: int = setting(
        30_000,
        "Maximum time, before jitter, for which a slow or failed replica is asked after all "
        "others.",
        low=0,
    )

    def __post_init__(self) -> None:
        check_settings(self, "reads")


@dataclass(slots=True)
class _SinkState:
    backoff: Backoff
    until: float = 0.0
    probed_until: float = 0.0


@dataclass(slots=True)
class ReadCounts:
    """Counters for metrics."""

    reads: int = 0
    extra: int = 0
    extra_refused: int = 0
    extra_won: int = 0
    sunk: int = 0
    recovered: int = 0
    responses_by_region: dict[str, int] = field(default_factory=dict)


class RegionReads:
    """The ``ReadPolicy`` of a process in region ``own``.

    ``rack_of`` and ``is_offline`` are called synchronously, so they must not wait for the store.
    """

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
        self._latencies: dict[str | None, Histogram] = {}
        self._sinking: dict[BookieId, _SinkState] = {}
        burst = self._settings.extra_burst
        self._extra_limiter = RateLimiter(self._settings.extra_per_second, burst=burst)

    # --- order ----------------------------------------------------------------------------------

    def order(self, choices: Sequence[ReplicaChoice]) -> list[ReplicaChoice]:
        """See ReadPolicy."""
        now = self._loop.time()
        shuffled = list(choices)
        self._random.shuffle(shuffled)
        keys = {choice: self._sort_key(choice, now) for choice in shuffled}
        found = sorted(shuffled, key=lambda choice: keys[choice])
        tier = keys[found[0]][0] if found else 0
        self._diversify(found, sum(1 for choice in found if keys[choice][0] == tier))
        if found and (sink_state := self._sinking.get(found[0].bookie)) is not None:
            sink_state.probed_until = now + self._settings.sink_ms_max / 1000
        return found

    def _sort_key(self, choice: ReplicaChoice, now: float) -> tuple[int, float]:
        sink_state = self._sinking.get(choice.bookie)
        tier = 0
        if self._is_offline(choice.region):
            tier = 2
        elif sink_state is not None and (now < sink_state.until or now < sink_state.probed_until):
            tier = 1
        if choice.region is not None and choice.region == self._own:
            return tier, -1.0
        known = self._latencies.get(choice.region)
        if known is None or known.count < _KNOWN_MIN:
            return tier, _NOT_MEASURED_MS
        return tier, known.upper_quantile_ms(0.5)

    def _diversify(self, found: list[ReplicaChoice], healthy: int) -> None:
        """Move a replica in another rack to the second place, one in another region to the
        third."""
        if healthy < 2:
            return
        first = self._location(found[0])
        self._move_first_match(found, 1, healthy, lambda choice: self._location(choice) != first)
        regions = {found[0].region, found[1].region}
        self._move_first_match(found, 2, healthy, lambda choice: choice.region not in regions)

    def _move_first_match(
        self, found: list[ReplicaChoice], to: int, end: int, suits: Callable[[ReplicaChoice], bool]
    ) -> None:
        for index in range(to, end):
            if suits(found[index]):
                found.insert(to, found.pop(index))
                return

    def _location(self, choice: ReplicaChoice) -> tuple[str | None, str | None]:
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
        """Return the time within which a healthy replica of a region responds."""
        known = self._latencies.get(region)
        usual_ms: float = self._settings.unmeasured_ms
        if known is not None and known.count >= _MEASURED_MIN:
            median_ms, p99_ms = known.upper_quantile_ms(0.5), known.upper_quantile_ms(0.99)
            usual_ms = min(p99_ms, _MEDIANS_MAX * median_ms)
        if region is not None and region == self._own:
            usual_ms = min(usual_ms, self._settings.local_ms_max)
        return usual_ms

    def may_send_more(self, kind: ReadKind) -> bool:
        """See ReadPolicy."""
        now = self._loop.time()
        if self._settings.extra_burst < 1 or self._extra_limiter.wait_s(1, now) > 0:
            self.counts.extra_refused += 1
            return False
        self._extra_limiter.take(1, now)
        self.counts.extra += 1
        return True

    # --- observations ---------------------------------------------------------------------------

    def on_response(
        self, kind: ReadKind, choice: ReplicaChoice, took_ms: float, asked: int
    ) -> None:
        """See ReadPolicy."""
        self.counts.reads += 1
        self._extra_limiter.earn(self._settings.extra_percent / 100)
        region = choice.region or "unknown"
        self.counts.responses_by_region[region] = self.counts.responses_by_region.get(region, 0) + 1
        if self._sinking.pop(choice.bookie, None) is not None:
            self.counts.recovered += 1
        if kind is ReadKind.ENTRY:
            latencies = self._latencies.get(choice.region)
            if latencies is None:
                latencies = self._latencies[choice.region] = Histogram(
                    steps=_LATENCY_STEPS, decay=_LATENCY_DECAY
                )
            latencies.add(took_ms / 1000)

    def on_failure(self, choice: ReplicaChoice) -> None:
        """See ReadPolicy."""
        self._sink(choice.bookie)

    def on_outrun(self, choice: ReplicaChoice) -> None:
        """See ReadPolicy."""
        self.counts.extra_won += 1
        self._sink(choice.bookie)

    def _sink(self, bookie: BookieId) -> None:
        now = self._loop.time()
        sink_state = self._sinking.get(bookie)
        if sink_state is None:
            settings = self._settings
            backoff = Backoff(self._random, settings.sink_ms_min, settings.sink_ms_max)
            sink_state = self._sinking[bookie] = _SinkState(backoff)
        if now < sink_state.until:
            return  # requests sent before it sank add no information
        sink_state.until = now + sink_state.backoff.next_s()
        sink_state.probed_until = 0.0
        self.counts.sunk += 1

    # --- statistics -----------------------------------------------------------------------------

    def statistics(self) -> dict[str, Any]:
        """Return counters, and latencies by region of the replica, for metrics."""
        counts = self.counts
        return {
            "requests": counts.reads,
            "speculative": counts.extra,
            "speculative_denied": counts.extra_refused,
            "speculative_won": counts.extra_won,
            "demoted": counts.sunk,
            "restored": counts.recovered,
            "responses_by_region": dict(sorted(counts.responses_by_region.items())),
            "latency": {
                str(region): known.summary()
                for region, known in sorted(self._latencies.items(), key=lambda pair: str(pair[0]))
            },
        }
