"""The plan ``shared-machines``: two bookies run on each machine, and whole machines fail.

All bookies of a region lie in one rack, so only the host that they register tells machines apart.
Every copy of an entry but one could be on the machine that fails, if placement ignored it.
"""

from random import Random

from .....core.bookie.config import KIB
from .....core.ledger.config import LedgerConfig
from .....core.log.policy import FlushPolicy, StreamPolicy
from .....core.protocol.quorum import Quorum
from ...cluster import Fault, SimClusterSettings, machine_name
from ...seed_run import RunPlan
from ...workload.workload import WriterHabits
from ...world.sim_world import THREE_REGIONS

LASTS_MS = 25_000
PER_MACHINE = 2

_SHAPES = (
    # quorum, machines by region
    (Quorum(2, 2, 2), (3, 0, 0)),
    (Quorum(3, 3, 2), (4, 0, 0)),
    (Quorum(4, 4, 3, 2), (3, 3, 0)),
    (Quorum(3, 3, 2, 2), (2, 2, 2)),
    (Quorum(4, 3, 2), (5, 0, 0)),  # striped
)


def shared_machines(seed: int) -> RunPlan:
    """Return a plan of 25 s in which machines with two bookies are killed, or one is wiped."""
    random = Random(f"{seed} shared-machines")
    quorum, machines_by_region = random.choice(_SHAPES)
    regions = THREE_REGIONS.regions
    machines = [
        machine_name(region, number)
        for region, count in zip(regions, machines_by_region, strict=True)
        for number in range(count)
    ]
    if random.random() < 0.4:
        # After a wipe nothing else is lost, so that one copy of each entry is left.
        at_ms = random.randint(5_000, LASTS_MS - 15_000)
        faults = [Fault("wipe-machine", random.choice(machines), at_ms, 2_000)]
    else:
        faults = [
            Fault(
                random.choice(("kill-machine", "power-machine")),
                random.choice(machines),
                random.randint(500, LASTS_MS - 6_000),
                random.choice((300, 4_000)),
            )
            for _ in range(random.randint(1, 3))
        ]
    apps = [f"app-{region}" for region in regions]
    writers = [(0, random.choice(apps))]
    for at_ms in random.sample(range(4_000, LASTS_MS - 4_000), random.randint(0, 2)):
        writers.append((at_ms, random.choice(apps)))
    return RunPlan(
        seed=f"{seed} shared-machines",
        topology=THREE_REGIONS,
        bookies_by_region=tuple(count * PER_MACHINE for count in machines_by_region),
        settings=SimClusterSettings(
            policy=StreamPolicy(
                quorum=quorum,
                flush=FlushPolicy(period_ms=random.choice((0, 5))),
                roll_bytes=16 * KIB,
            ),
            ledger=LedgerConfig(
                request_timeout_ms=1_000, failure_memory_ms=2_000, underreplicated_ms_max=500
            ),
            log_file_bytes=256 * KIB,
            bookies_per_machine=PER_MACHINE,
        ),
        habits=WriterHabits(pause_ms=random.choice((60, 120)), stops_when_replaced=True),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        writers=tuple(sorted(writers)),
        readers=(random.choice(apps),),
        lasts_ms=LASTS_MS,
        appends_max=1_500,
        repairs=tuple(
            name for name, count in zip(regions, machines_by_region, strict=True) if count
        ),
    )
