"""The plan ``regional``: the stream is in the metadata store of one region, beside a global store.

The plan is ``swarm`` or ``streams`` with a regional store in the region east, whose bookies hold
all copies. It is often cut off from the global store, in which bookies of the other regions are
registered too. Bookies collect garbage all the time: the global store knows none of the ledgers.
"""

from dataclasses import replace
from random import Random

from .....core.protocol.quorum import Quorum
from ...cluster import Fault, bookie_hosts
from ...seed_run import RunPlan
from ..streams import streams
from ..swarm import REGIONS, swarm

REGION = "east"

_QUORUMS = (Quorum(3, 3, 2, 1), Quorum(3, 3, 2, 1), Quorum(4, 3, 2, 1), Quorum(3, 2, 2, 1))
_BOOKIES = (5, 1, 1)


def regional(seed: int) -> RunPlan:
    """Return a plan whose streams and ledgers are in a regional store."""
    random = Random(f"{seed} regional")
    plan = random.choice((swarm, streams))(seed)
    hosts = bookie_hosts(REGIONS, _BOOKIES)
    breakable = random.choice(hosts[: _BOOKIES[0]])
    faults = []
    for fault in plan.faults:
        if fault.kind in ("wipe", "rot"):
            faults.append(replace(fault, target=breakable))
        elif not fault.target.startswith("bookie-") or fault.target in hosts:
            faults.append(fault)
        else:
            faults.append(replace(fault, target=random.choice(hosts)))
    for _ in range(random.randint(1, 3)):
        at_ms = random.randint(1_000, plan.lasts_ms)
        faults.append(Fault("cut-region", REGION, at_ms, random.randint(1_000, 9_000)))
    settings = plan.settings
    policy = replace(settings.policy, quorum=random.choice(_QUORUMS))
    if plan.run is None:
        policy = replace(policy, roll_ms=random.choice((500, 1_500, 7_200_000)))
    return replace(
        plan,
        seed=f"{seed} regional",
        bookies_by_region=_BOOKIES,
        topology=replace(plan.topology, metadata_regions=(REGION,)),
        settings=replace(
            settings,
            policy=policy,
            regional_store=REGION,
            maintenance_ms=random.choice((200, 1_000)),
            collect_ms=random.choice((300, 2_000)),
        ),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        writers=((0, f"app-{REGION}"), *plan.writers),
    )
