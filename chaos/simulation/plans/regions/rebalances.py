"""The plan ``rebalances``: copies of closed ledgers move between bookies while things fail.

The plan is ``swarm`` with three bookies in each region, short segments, two repair processes and a
small tolerance. Orders to rebalance are given, replaced, paused and resumed. In most seeds bookies
return surplus copies soon, so that copies also move back to bookies that had them. At the end every
bookie is sent adds to the ledgers that it fenced, which it may have returned and got back since.
"""

from dataclasses import replace
from random import Random

from .....core.protocol.quorum import Quorum
from ...cluster import Fault
from ...seed_run import RunPlan
from ..recoveries import RecoveriesRun
from ..swarm import swarm

_QUORUMS = (Quorum(3, 3, 2, 2), Quorum(3, 3, 2, 2), Quorum(3, 3, 3, 3), Quorum(4, 3, 2, 2))


def rebalances(seed: int) -> RunPlan:
    """Return a plan of ``swarm`` in which closed ledgers are rebalanced."""
    random = Random(f"{seed} rebalances")
    plan = swarm(seed)
    quorum = random.choice(_QUORUMS)
    settings = plan.settings
    policy = replace(settings.policy, quorum=quorum, roll_ms=random.choice((500, 1_500)))
    bookie_habits = Random(f"{seed} returned copies")
    surplus_ms = bookie_habits.choice((0, 0, 500, 3_600_000))
    collect_ms, maintenance_ms = bookie_habits.choice(((100, 50), (1_000, 300)))
    faults = [
        fault for fault in plan.faults if fault.kind not in ("wipe", "rot") or random.random() < 0.3
    ]
    for _ in range(random.randint(2, 5)):
        at_ms = random.randint(1_000, plan.lasts_ms)
        rate = random.choice((2_000, 1_000_000))
        faults.append(
            Fault("rebalance", random.choice(("order", "order", "pause")), at_ms, 0, rate)
        )
    return replace(
        plan,
        seed=f"{seed} rebalances",
        bookies_by_region=(3, 3, 3),
        settings=replace(
            settings,
            policy=policy,
            surplus_ms=surplus_ms,
            collect_ms=collect_ms,
            maintenance_ms=maintenance_ms,
        ),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        repairs=("east", "west"),
        habits=replace(plan.habits, pause_ms=50),
        run=RecoveriesRun,
    )
