"""Many seeds on all cores: what they found, and how much was tried."""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from ..checker.run_record import INVARIANTS
from .plans.basic import first_light, steady
from .plans.lying_disk import liar
from .plans.policies import policies
from .plans.races import changes, races
from .plans.recreation import rebirths
from .plans.streams import streams
from .plans.swarm import swarm
from .seed_run import RunPlan, run_plan
from .shrink import replay_command, shrink


def mixed(seed: int) -> RunPlan:
    """All that must never fail, in turn."""
    return (swarm, races, changes, policies, races, changes)[seed % 6](seed)


def everything(seed: int) -> RunPlan:
    """``mixed``, and every fourth seed ``streams`` instead."""
    return streams(seed) if seed % 4 == 0 else mixed(seed)


PLANS: dict[str, Callable[[int], RunPlan]] = {
    "changes": changes,
    "everything": everything,
    "first-light": first_light,
    "liar": liar,
    "mixed": mixed,
    "policies": policies,
    "races": races,
    "rebirths": rebirths,
    "steady": steady,
    "streams": streams,
    "swarm": swarm,
}

_SEEDS_A_TASK = 5


class SeedResult(NamedTuple):
    """What one seed came to. ``replay``: of a failed one, with as few faults as will do."""

    seed: int
    violations: tuple[str, ...]
    digest: str
    acked: int
    virtual_s: float
    events: int
    messages: int
    outcomes: dict[str, int]
    faults: dict[str, int]
    states: dict[str, int]
    overlaps: dict[str, int]
    replay: str = ""
    schedule: tuple[str, ...] = ()
    """Of a failed one: the faults that it takes."""
    orphans: int = 0


class Speed(NamedTuple):
    """How fast one process goes through runs of 20 appends a second, checkers included."""

    virtual_s: float
    real_s: float
    cpu_s: float
    appends: int


def measure_speed(seeds: Iterable[int] = (1, 2, 3)) -> Speed:
    """Runs plan ``steady`` in this process. The first run of all is not counted."""
    run_plan(PLANS["first-light"](1))
    real_s, cpu_s = time.monotonic(), time.process_time()
    results = [run_plan(PLANS["steady"](seed)) for seed in seeds]
    return Speed(
        sum(result.virtual_s for result in results),
        time.monotonic() - real_s,
        time.process_time() - cpu_s,
        sum(result.acked for result in results),
    )


@dataclass(slots=True)
class SeedTotals:
    """What all seeds came to."""

    seeds: int = 0
    failed: list[SeedResult] = field(default_factory=list)
    virtual_s: float = 0.0
    real_s: float = 0.0
    events: int = 0
    messages: int = 0
    acked: int = 0
    acked_min: int = 1 << 60
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    orphans: int = 0
    """Ledgers of segments that were never published; see ``Result``."""
    checks: int = 0
    """Invariants judged, over all seeds."""
    overlaps: dict[str, list[int]] = field(default_factory=dict)
    """By kind of fault: for each seed, the fewest appends under way while one lasted."""

    def add(self, run: SeedResult) -> None:
        """Counts one seed."""
        self.seeds += 1
        self.checks += len(INVARIANTS)
        if run.violations:
            self.failed.append(run)
        self.virtual_s += run.virtual_s
        self.events += run.events
        self.messages += run.messages
        self.acked += run.acked
        self.orphans += run.orphans
        self.acked_min = min(self.acked_min, run.acked)
        self.outcomes.update(run.outcomes)
        self.faults.update(run.faults)
        self.states.update(run.states)
        for kind, number in run.overlaps.items():
            self.overlaps.setdefault(kind, []).append(number)


def run_seed(plan: str, seed: int) -> SeedResult:
    """Runs one seed of a plan, and a failed one again with fewer and fewer faults."""
    made = PLANS[plan](seed)
    result = run_plan(made)
    replay = ""
    schedule: tuple[str, ...] = ()
    if not result.is_good:
        kept = shrink(made, result.violations[0].id)
        replay = replay_command(plan, seed, kept)
        schedule = tuple(str(made.faults[place]) for place in kept)
    return SeedResult(
        seed,
        tuple(str(violation) for violation in result.violations),
        result.digest,
        result.acked,
        result.virtual_s,
        result.events,
        result.messages,
        result.outcomes,
        result.faults,
        result.states,
        result.overlaps,
        replay,
        schedule,
        result.orphans,
    )


def run_many(
    plan: str,
    seeds: Iterable[int] | None = None,
    *,
    first: int = 1,
    minutes: float | None = None,
    jobs: int = 0,
    on_run: Callable[[SeedResult], None] = lambda run: None,
) -> SeedTotals:
    """Runs ``seeds``, or from ``first`` on until ``minutes`` are over, in ``jobs`` processes.

    0 jobs: one a core. Leaves no process behind.
    """
    started = time.monotonic()
    total = SeedTotals()
    end = None if minutes is None else started + 60 * minutes
    tasks = _tasks(count(first) if seeds is None else seeds)
    jobs = jobs or os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=20) as pool:
        under_way: set[Future[list[SeedResult]]] = set()
        while True:
            while len(under_way) < jobs + 1 and (end is None or time.monotonic() < end):
                task = next(tasks, None)
                if task is None:
                    break
                under_way.add(pool.submit(_run_some, plan, task))
            if not under_way:
                break
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                for run in future.result():
                    total.add(run)
                    on_run(run)
    total.real_s = time.monotonic() - started
    return total


def _tasks(seeds: Iterable[int]) -> Iterator[list[int]]:
    task: list[int] = []
    for seed in seeds:
        task.append(seed)
        if len(task) == _SEEDS_A_TASK:
            yield task
            task = []
    if task:
        yield task


def _run_some(plan: str, seeds: list[int]) -> list[SeedResult]:
    return [run_seed(plan, seed) for seed in seeds]
