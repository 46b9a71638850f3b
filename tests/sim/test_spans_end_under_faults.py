"""Every tracing span that is begun ends exactly once, despite faults."""

from collections import Counter
from collections.abc import Sequence

import pytest

from rhumbline.chaos.simulation.seed_run import run_plan
from rhumbline.chaos.simulation.seed_runner import PLANS
from rhumbline.chaos.simulation.world.sim_world import SimHost
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.runtime.tracing import TraceStep, Value

TRACEPARENT = f"00-{'ab' * 16}-{'cd' * 8}-01"


class CountedSpan:
    def __init__(self, counts: Counter[str], step: TraceStep) -> None:
        self.traceparent = TRACEPARENT
        self._counts = counts
        self._step = step
        self._is_over = False
        counts[f"{step} begun"] += 1

    def join(self) -> None:
        assert not self._is_over

    def end(self, error: BaseException | None = None, **attributes: Value) -> None:
        assert not self._is_over
        self._is_over = True
        self._counts[f"{self._step} ended"] += 1
        self._counts["failed"] += error is not None


class CountingTracer:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def sample(self, step: TraceStep, **attributes: Value) -> CountedSpan:
        return CountedSpan(self.counts, step)

    def follow(self, step: TraceStep, parents: Sequence[str], **attributes: Value) -> CountedSpan:
        assert set(parents) == {TRACEPARENT}
        return CountedSpan(self.counts, step)


@pytest.mark.parametrize("plan", ["swarm", "mixed", "changes"])
def test_every_span_ends_once(plan: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tracer = CountingTracer()

    def traced_runtime(host: SimHost) -> Runtime:
        random = host.world.random_of(f"process {host.name} {host.starts}")
        return Runtime(host.clock, random, tracer)

    monkeypatch.setattr(SimHost, "runtime", traced_runtime)
    result = run_plan(PLANS[plan](seed))
    assert result.violations == []
    counts = tracer.counts
    print(plan, seed, dict(counts))
    assert counts[f"{TraceStep.DELIVER} begun"] > 0
    killed = {
        TraceStep.APPEND,
        TraceStep.ADD,
        TraceStep.STORE,
        TraceStep.DELIVER,
        TraceStep.PROCESS,
    }  # spans of a killed process never end
    for step in killed:
        assert counts[f"{step} ended"] <= counts[f"{step} begun"]
        assert counts[f"{step} ended"] > 0.9 * counts[f"{step} begun"]
