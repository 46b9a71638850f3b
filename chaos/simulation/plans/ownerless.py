"""The plan ``ownerless``: repair ends open segments whose writer is gone, asleep or only idle.

A bookie of the newest ledger is drained while the writer is killed, idle, or paused until about the
moment at which repair takes the stream over. In some seeds the programs follow no roll requests, so
that repair must judge a writer by what it adds. The stream is also sealed and unsealed.
"""

from random import Random

from ....core.bookie.config import KIB
from ....core.ledger.config import LedgerConfig
from ....core.log.policy import FlushPolicy, StreamPolicy
from ....core.protocol.quorum import Quorum
from ..cluster import Fault, SimClusterSettings, bookie_hosts
from ..operator import Operator
from ..repair import REPAIR
from ..seed_run import RunPlan, SeedRun
from ..workload.workload import WriterHabits
from ..world.sim_world import THREE_REGIONS, SimWorld

LASTS_MS = 30_000
_SCENE_MS = 10_000

_SHAPES = (
    # quorum, bookies by region
    (Quorum(3, 3, 2, 2), (2, 2, 2)),
    (Quorum(3, 3, 2, 2), (2, 2, 2)),
    (Quorum(3, 3, 3, 3), (2, 2, 2)),
    (Quorum(4, 4, 3, 2), (2, 2, 2)),
    (Quorum(5, 3, 2, 2), (3, 3, 3)),  # striped
    (Quorum(3, 3, 2, 1), (3, 2, 2)),
)

_KINDS = ("sleep", "sleep", "sleep", "kill", "idle", "work", "seal")


def ownerless(seed: int) -> RunPlan:
    """Return a plan of 30 s with three scenes, each of which ends the open segment in some way."""
    random = Random(f"{seed} ownerless")
    quorum, bookies_by_region = random.choice(_SHAPES)
    regions = THREE_REGIONS.regions
    apps = [f"app-{region}" for region in regions]
    writers = [(0, random.choice(apps))]
    faults: list[Fault] = []
    for scene in range(LASTS_MS // _SCENE_MS):
        if scene and random.random() < 0.3:
            writers.append((scene * _SCENE_MS - 2_000, random.choice(apps)))
        kind = random.choice(_KINDS) if scene else "sleep"
        at_ms = scene * _SCENE_MS + random.randint(1_500, 2_500)
        faults += _scene(random, kind, at_ms, writers[-1][1])
    faults += _nuisances(random, bookie_hosts(regions, bookies_by_region))
    return RunPlan(
        seed=f"{seed} ownerless",
        topology=THREE_REGIONS,
        bookies_by_region=bookies_by_region,
        settings=SimClusterSettings(
            policy=StreamPolicy(
                quorum=quorum, flush=FlushPolicy(period_ms=random.choice((0, 0, 5)))
            ),
            ledger=LedgerConfig(request_timeout_ms=1_000, underreplicated_ms_max=2_000),
            log_file_bytes=256 * KIB,
            follows_rolls=random.random() < 0.6,
        ),
        habits=WriterHabits(pause_ms=random.choice((20, 100, 300)), stops_when_replaced=True),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        writers=tuple(writers),
        readers=(random.choice(apps),),
        lasts_ms=LASTS_MS,
        appends_max=3_000,
        repairs=("east", "west"),
        run=OwnerlessRun,
    )


def _scene(random: Random, kind: str, at_ms: int, writer: str) -> list[Fault]:
    """Return the faults of one scene that begins at ``at_ms``."""
    lasts_ms = random.randint(6_000, 9_000)
    drain = Fault("drain-member", "newest", at_ms, lasts_ms)
    if kind == "sleep":
        # The takeover follows the drain after the grace time and one or two seconds.
        begin_ms = at_ms - random.randint(-100, 800)
        wakes_ms = at_ms + REPAIR.ownerless_grace_ms + random.randint(500, 4_000)
        sleep = Fault("pause", writer, begin_ms, wakes_ms - begin_ms)
        return [drain, sleep]
    if kind == "kill":
        return [drain, Fault("kill", writer, at_ms - 200, random.choice((100, 5_000, 8_000)))]
    if kind == "idle":
        return [drain, Fault("idle", "writers", at_ms - 200, lasts_ms)]
    if kind == "seal":
        return [Fault("seal", "stream", at_ms, random.choice((10, 1_000, 4_000)))]
    return [drain]


def _nuisances(random: Random, bookies: list[str]) -> list[Fault]:
    """Return other faults, in half of the plans."""
    if random.random() < 0.5:
        return []
    faults = []
    for _ in range(random.randint(1, 3)):
        kind = random.choice(("kill", "pause", "isolate"))
        lasts_ms = random.choice((300, 1_500))
        at_ms = random.randint(1_000, LASTS_MS)
        faults.append(Fault(kind, random.choice(bookies), at_ms, lasts_ms))
    store = random.choice(("metadata-slow", "metadata-loses-answers", "late-watches"))
    value = {"metadata-slow": 20, "metadata-loses-answers": 0.3, "late-watches": 3_000}[store]
    faults.append(Fault(store, "metadata", random.randint(1_000, LASTS_MS), 6_000, value))
    return faults


class OwnerlessRun(SeedRun):
    """A run of ``ownerless``, with an operator."""

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        super().__init__(world, plan)
        self.operator = self.cluster.operator = Operator(self.cluster)

    async def play(self) -> None:
        """Start the operator, and run all phases."""
        self.operator.start()
        await super().play()
