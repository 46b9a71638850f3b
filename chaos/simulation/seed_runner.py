"""Runs many seeds of a plan on all cores and sums up their results."""

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
from .plans.basic import basic, steady
from .plans.lying_disk import lying_disk
from .plans.policies import policies
from .plans.races import changes, races
from .plans.recreation import recreation
from .plans.streams import streams
from .plans.swarm import swarm
from .seed_run import RunPlan, run_plan
from .shrink import replay_command, shrink


def mixed(seed: int) -> RunPlan:
    """Return a plan of ``swarm``, ``races``, ``changes`` or ``policies``, by the seed in turn."""
    return (swarm, races, changes, policies, races, changes)[seed % 6](seed)


def everything(seed: int) -> RunPlan:
    """Return a plan of ``streams`` for every fourth seed, else of ``mixed``."""
    return streams(seed) if seed % 4 == 0 else mixed(seed)


# The names are those of the command line. The strings inside the plan functions that seed their
# generators (for example f"{seed} first light") are part of a seed's identity and never change.
PLANS: dict[str, Callable[[int], RunPlan]] = {
    "basic": basic,
    "changes": changes,
    "everything": everything,
    "lying-disk": lying_disk,
    "mixed": mixed,
    "policies": policies,
    "races": races,
    "recreation": recreation,
    "steady": steady,
    "streams": streams,
    "swarm": swarm,
}

_SEEDS_A_TASK = 5


class SeedResult(NamedTuple):
    """The result of one seed."""

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
    """For a failed seed: the command that replays it with as few faults as suffice."""
    schedule: tuple[str, ...] = ()
    """For a failed seed: the faults that remain in ``replay``."""
    orphans: int = 0


class Speed(NamedTuple):
    """The speed of one process in runs of 20 appends per second, with all checks."""

    virtual_s: float
    real_s: float
    cpu_s: float
    appends: int


def measure_speed(seeds: Iterable[int] = (1, 2, 3)) -> Speed:
    """Run the plan ``steady`` in this process. A warm-up run is not counted."""
    run_plan(PLANS["basic"](1))
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
    """The sums over all seeds of a hunt."""

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
    """Ledgers of segments that were never published; see ``RunResult``."""
    checks: int = 0
    """Evaluated invariants, summed over all seeds."""
    overlaps: dict[str, list[int]] = field(default_factory=dict)
    """For each kind of fault and each seed, the fewest appends in progress while one lasted."""

    def add(self, run: SeedResult) -> None:
        """Add the result of one seed."""
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
    """Run one seed of a plan. If it fails, shrink its schedule to the faults that matter."""
    made = PLANS[plan](seed)
    result = run_plan(made)
    replay = ""
    schedule: tuple[str, ...] = ()
    if not result.is_good:
        kept = shrink(made, result.violations[0].id)
        replay = replay_command(plan, seed, kept)
        schedule = tuple(str(made.faults[index]) for index in kept)
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
    """Run ``seeds``, or all from ``first`` on until ``minutes`` have passed.

    ``jobs`` is the number of processes; 0 means one per core. No process is left behind.
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
