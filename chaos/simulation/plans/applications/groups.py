"""The plan ``groups``: writers and members of a group share a topic through proxies.

In each region a process writes keyed records to the topic, and a member of the same group reads it.
Members join, commit and leave every few seconds. Their processes, and the proxies that hold their
sessions, are killed, paused, stopped and cut off, or their sessions end in the metadata store. The
topic grows meanwhile. Invariants G35, G36 and G37 judge them, beside those of the plan ``proxies``.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ...cluster import Fault
from ...seed_run import RunPlan
from ...world.sim_world import THREE_REGIONS, SimWorld
from ..proxies import LASTS_MS, proxies

if TYPE_CHECKING:
    from ...proxies.group_run import GroupRun

_LASTS_MS = (100, 1_500, 2_500, 4_000)
_KINDS: tuple[tuple[str, str, float], ...] = (
    # kind, target, value
    ("isolate", "holding", 0.0),
    ("isolate", "holding", 0.0),
    ("pause", "holding", 0.0),
    ("kill", "holding", 0.0),
    ("stop-proxy", "holding", 0.0),
    ("expire-sessions", "holding", 0.0),
    ("isolate", "app-{region}", 0.0),
    ("isolate", "app-{region}", 0.0),
    ("deafen", "app-{region}", 0.0),
    ("kill", "app-{region}", 0.0),
    ("pause", "app-{region}", 0.0),
    ("reset", "app-{region}", 0.7),
    ("kill", "owner", 0.0),
    ("cut-region", "{region}", 0.0),
    ("metadata-loses-answers", "metadata", 0.3),
    ("late-watches", "metadata", 500.0),
)
"""The faults. ``holding`` is a proxy that holds sessions of members when the fault begins."""


def groups(seed: int) -> RunPlan:
    """Return a plan of ``proxies`` with a topic, whose faults hit members and their proxies."""
    random = Random(f"{seed} groups")
    plan = proxies(seed)
    faults = [_fault(random) for _ in range(random.randint(3, 8))]
    return replace(
        plan,
        seed=f"{seed} groups",
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        readers=(),
        appends_max=100,
        run=_run,
    )


def _run(world: SimWorld, plan: RunPlan) -> "GroupRun":
    """Return the run of a plan, which needs the packages of the extra ``grpc``."""
    from ...proxies.group_run import GroupRun

    return GroupRun(world, plan)


def _fault(random: Random) -> Fault:
    kind, target, value = random.choice(_KINDS)
    target = target.format(region=random.choice(THREE_REGIONS.regions))
    at_ms, lasts_ms = random.randint(1_000, LASTS_MS), random.choice(_LASTS_MS)
    return Fault(kind, target, at_ms, lasts_ms, value)
