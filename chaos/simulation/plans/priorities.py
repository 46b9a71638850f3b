"""The plan ``priorities``: the runs of ``races``, with messages ordered by priorities.

Random delays rarely make one path consistently slower than all others, which many violations need.
Probabilistic concurrency testing gives each thread a random priority instead, and lowers one at a
few random points (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of
finding bugs", 2010). Here the paths between applications and bookies have priorities: a message on
a path of lower priority arrives after all that are sent at the same time on paths of higher ones.
At some points of the run the priority of one path becomes the lowest.
"""

from dataclasses import replace
from random import Random

from ..cluster import Fault, bookie_hosts
from ..seed_run import RunPlan
from .races import LASTS_MS, REGIONS, races

_LOWERED_MAX = 6
"""The most points at which a priority is lowered."""

_LAG_SHARE = 0.4
"""The longest delay of a path as a share of the request timeout, so that a request and its response
do not time out by their priorities alone."""


def priorities(seed: int) -> RunPlan:
    """Return a plan of ``races`` in which the priority of a path determines its delay."""
    random = Random(f"{seed} priorities")
    plan = races(seed)
    bookies = bookie_hosts(REGIONS, plan.bookies_by_region)
    apps = [f"app-{region}" for region in REGIONS]
    ends = [(app, bookie) for app in apps for bookie in bookies]
    paths = [f"{a}>{b}" for a, b in ends] + [f"{b}>{a}" for a, b in ends]
    random.shuffle(paths)
    lags = _lags(random, paths, plan.settings.ledger.request_timeout_ms)
    others = [fault for fault in plan.faults if fault.kind != "lag"]
    faults = sorted(others + lags, key=lambda fault: fault.at_ms)
    return replace(plan, seed=f"{seed} priorities", faults=tuple(faults))


def _lags(random: Random, paths: list[str], request_timeout_ms: int) -> list[Fault]:
    """Return faults that delay each path; the first path has the highest priority, and no delay."""
    lowered = random.randint(0, _LOWERED_MAX)
    unit_ms = request_timeout_ms * _LAG_SHARE / (len(paths) + lowered)
    lags = {path: [(0, rank * unit_ms)] for rank, path in enumerate(paths)}
    for number, at_ms in enumerate(sorted(random.sample(range(1, LASTS_MS), lowered))):
        lags[random.choice(paths)].append((at_ms, (len(paths) + number) * unit_ms))
    found: list[Fault] = []
    for path, values in lags.items():
        ends = [at_ms for at_ms, _ in values[1:]] + [LASTS_MS]
        found += [
            Fault("lag", path, at_ms, end_ms - at_ms - 1, lag_ms)  # ends before the next begins
            for (at_ms, lag_ms), end_ms in zip(values, ends, strict=True)
            if lag_ms and end_ms > at_ms + 1
        ]
    return found
