"""Runs many seeds of a plan on all cores and sums up their results."""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from ..checker.run_record import INVARIANTS
from .plans.acknowledgements import acknowledgements
from .plans.applications.groups import groups
from .plans.applications.idle_writers import idle_writers
from .plans.applications.impatient_clients import impatient_clients
from .plans.applications.producers import producers
from .plans.applications.schemas import schemas
from .plans.basic import basic, steady
from .plans.conditions import conditions
from .plans.damage import damage
from .plans.end_queries import end_queries
from .plans.grants import grants
from .plans.metadata.late_creations import late_creations
from .plans.metadata.rebuild import rebuild
from .plans.operations.archives import archives
from .plans.operations.upgrades import upgrades
from .plans.ownerless import ownerless
from .plans.policies import policies
from .plans.priorities import priorities
from .plans.proxies import proxies
from .plans.races import changes, races
from .plans.recoveries import recoveries
from .plans.recreation import recreation
from .plans.regions.cut_off_readers import cut_off_readers
from .plans.regions.lowered_repairs import lowered_repairs
from .plans.regions.r_changes import r_changes
from .plans.regions.rebalances import rebalances
from .plans.regions.regional import regional
from .plans.regions.shared_machines import shared_machines
from .plans.regions.slow_bookies import slow_bookies
from .plans.regions.spread_rules import spread_rules
from .plans.regions.unreachable_regions import unreachable_regions
from .plans.storage.data_directories import data_directories
from .plans.storage.lying_disk import lying_disk
from .plans.streams import streams
from .plans.swarm import swarm
from .seed_run import RunPlan, run_plan
from .shrink import replay_command, shrink
from .time_shares import SeedBatch, TimeShares


def mixed(seed: int) -> RunPlan:
    """Return a plan of ``swarm``, ``races``, ``changes`` or ``policies``, by the seed in turn."""
    return (swarm, races, changes, policies, races, changes)[seed % 6](seed)


# The names are those of the command line. The strings inside the plan functions that seed their
# generators (for example f"{seed} first light") are part of a seed's identity and never change.
PLANS: dict[str, Callable[[int], RunPlan]] = {
    "acknowledgements": acknowledgements,
    "archives": archives,
    "basic": basic,
    "changes": changes,
    "conditions": conditions,
    "cut-off-readers": cut_off_readers,
    "damage": damage,
    "data-directories": data_directories,
    "end-queries": end_queries,
    "grants": grants,
    "groups": groups,
    "idle-writers": idle_writers,
    "impatient-clients": impatient_clients,
    "late-creations": late_creations,
    "lowered-repairs": lowered_repairs,
    "lying-disk": lying_disk,
    "mixed": mixed,
    "ownerless": ownerless,
    "policies": policies,
    "priorities": priorities,
    "producers": producers,
    "proxies": proxies,
    "r-changes": r_changes,
    "races": races,
    "rebalances": rebalances,
    "rebuild": rebuild,
    "regional": regional,
    "recoveries": recoveries,
    "recreation": recreation,
    "schemas": schemas,
    "shared-machines": shared_machines,
    "slow-bookies": slow_bookies,
    "spread-rules": spread_rules,
    "steady": steady,
    "streams": streams,
    "swarm": swarm,
    "unreachable-regions": unreachable_regions,
    "upgrades": upgrades,
}

EVERYTHING = "everything"
"""The name that stands for all plans of ``SHARES``; it has no seeds of its own."""

SHARES: dict[str, float] = {
    "acknowledgements": 0.5,
    "archives": 0.5,
    "basic": 0.25,
    "changes": 1,
    "conditions": 1,
    "cut-off-readers": 1,
    "damage": 1,
    "data-directories": 0.5,
    "end-queries": 1,
    "grants": 0.5,
    "groups": 0.5,
    "idle-writers": 0.5,
    "impatient-clients": 0.5,
    "late-creations": 0.5,
    "lowered-repairs": 0.5,
    "lying-disk": 0.5,
    "ownerless": 0.5,
    "policies": 1,
    "priorities": 1,
    "producers": 0.5,
    "proxies": 1,
    "r-changes": 1,
    "races": 1,
    "rebalances": 0.5,
    "rebuild": 1,
    "regional": 1,
    "recoveries": 2,
    "recreation": 1,
    "schemas": 0.5,
    "shared-machines": 0.5,
    "slow-bookies": 0.5,
    "spread-rules": 0.5,
    "streams": 1,
    "swarm": 1,
    "unreachable-regions": 0.5,
    "upgrades": 1,
}
"""The share of each plan in the time of ``EVERYTHING``. ``mixed`` only repeats other plans,
and ``steady`` is for measurements."""

BATCH_S = 3.0
"""Running time of the seeds that a process is given at once, in seconds."""

_BATCHES_A_PROCESS = 30
"""Number of batches after which a process is replaced, which returns its memory."""


class SeedResult(NamedTuple):
    """The result of one seed."""

    plan: str
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
    seconds: float
    """CPU time, without the search for the faults that matter."""
    replay: str = ""
    """For a failed seed: the command that replays it, with as few faults as suffice if it was
    shrunk."""
    schedule: tuple[str, ...] = ()
    """For a failed seed: the faults that remain in ``replay``."""
    orphans: int = 0
    situations: tuple[int, ...] = ()
    """See ``TransitionCoverage``."""

    @property
    def failure(self) -> str:
        """The id of the first violated invariant; empty if all held."""
        return self.violations[0].partition(":")[0] if self.violations else ""


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
class PlanTotals:
    """The sums over the seeds of one plan."""

    seeds: int = 0
    failed: int = 0
    seconds: float = 0.0
    """CPU time of the seeds, summed over all processes."""
    virtual_s: float = 0.0
    acked: int = 0
    faults: int = 0
    new_situations: int = 0
    """Situations that a seed of this plan reached first."""


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
    situations: int = 0
    """Different situations that the seeds reached."""
    overlaps: dict[str, list[int]] = field(default_factory=dict)
    """For each kind of fault and each seed, the fewest appends in progress while one lasted."""
    plans: dict[str, PlanTotals] = field(default_factory=dict)

    def add(self, run: SeedResult, new_situations: int = 0) -> None:
        """Add the result of one seed, and the number of situations that it reached first."""
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
        plan = self.plans.setdefault(run.plan, PlanTotals())
        plan.seeds += 1
        plan.failed += bool(run.violations)
        plan.seconds += run.seconds
        plan.virtual_s += run.virtual_s
        plan.acked += run.acked
        plan.faults += sum(run.faults.values())
        plan.new_situations += new_situations
        self.situations += new_situations


def run_seed(plan: str, seed: int) -> SeedResult:
    """Run one seed of a plan."""
    started = time.process_time()
    result = run_plan(PLANS[plan](seed))
    return SeedResult(
        plan,
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
        time.process_time() - started,
        replay="" if result.is_good else replay_command(plan, seed),
        orphans=result.orphans,
        situations=result.situations,
    )


def run_many(
    plan: str,
    seeds: Sequence[int] | None = None,
    *,
    first: int = 1,
    minutes: float | None = None,
    jobs: int = 0,
    on_run: Callable[[SeedResult], None] = lambda run: None,
    shares: Mapping[str, float] | None = None,
) -> SeedTotals:
    """Run ``seeds``, or all from ``first`` on until ``minutes`` have passed.

    ``EVERYTHING`` divides the time over plans by ``shares``, which default to ``SHARES``, and by
    what they find (see ``time_shares``). Of the seeds of a plan that violate the same invariant
    first, one is shrunk to the faults that matter. ``jobs`` is the number of processes; 0 means one
    per core. No process is left behind.
    """
    started = time.monotonic()
    total = SeedTotals()
    end = None if minutes is None else started + 60 * minutes
    times = seeds_by_time(plan, seeds, first=first, shares=shares)
    jobs = jobs or os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    shrunk: dict[tuple[str, str], None] = {}
    with ProcessPoolExecutor(
        jobs, mp_context=context, max_tasks_per_child=_BATCHES_A_PROCESS
    ) as pool:
        under_way: set[Future[list[SeedResult]]] = set()
        while True:
            while len(under_way) < jobs + 1 and (end is None or time.monotonic() < end):
                batch = times.take(BATCH_S)
                if batch is None:
                    break
                under_way.add(pool.submit(_run_batch, batch))
            if not under_way:
                break
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for run in (run for future in done for run in future.result()):
                if run.schedule:  # it was counted before it was shrunk
                    on_run(run)
                    continue
                total.add(run, times.finished(run.plan, run.seconds, run.situations))
                failure = run.plan, run.failure
                if run.failure and failure not in shrunk:
                    shrunk[failure] = None
                    under_way.add(pool.submit(_shrink_schedule, run))
                else:
                    on_run(run)
    total.real_s = time.monotonic() - started
    return total


def seeds_by_time(
    plan: str,
    seeds: Sequence[int] | None = None,
    *,
    first: int = 1,
    shares: Mapping[str, float] | None = None,
) -> TimeShares:
    """Return the seeds of ``plan`` (None: all from ``first`` on) in the order to run them.

    ``EVERYTHING`` stands for all plans of ``shares``, which default to ``SHARES``.
    """
    if plan != EVERYTHING:
        shares = {plan: 1.0}
    elif shares is None:
        shares = SHARES
    return TimeShares(shares, {name: count(first) if seeds is None else seeds for name in shares})


def _run_batch(batch: SeedBatch) -> list[SeedResult]:
    return [run_seed(batch.plan, seed) for seed in batch.seeds]


def _shrink_schedule(run: SeedResult) -> list[SeedResult]:
    """Return the result with the faults that suffice for its first violation."""
    made = PLANS[run.plan](run.seed)
    kept = shrink(made, run.failure)
    replay = replay_command(run.plan, run.seed, kept)
    schedule = tuple(str(made.faults[index]) for index in kept) or ("no fault is needed",)
    return [run._replace(replay=replay, schedule=schedule)]
