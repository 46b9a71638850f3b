"""The plan ``unreachable-regions``: a writer alone is cut off from one region after the other.

The bookies of the region stay registered, because they reach the metadata store and each other. The
writer has used only some of them, so nothing but its own failures shows the cut. The other regions
suffice for its segments, which are short (rule PLC-30).
"""

from random import Random

from .....core.bookie.config import KIB
from .....core.ledger.config import LedgerConfig
from .....core.log.policy import FlushPolicy, StreamPolicy
from .....core.protocol.quorum import Quorum
from ....checker.placement_invariants import LEARNS_MS
from ....checker.run_record import RunRecord, UnreachableRegion
from ...cluster import Fault, SimClusterSettings
from ...seed_run import RunPlan, SeedRun
from ...workload.workload import WriterHabits
from ...world.sim_world import THREE_REGIONS

LASTS_MS = 60_000
_CUT = "cut-from-region"
_SHAPES = (
    # quorum, bookies by region: any two regions suffice
    (Quorum(3, 3, 2, 2), (2, 2, 2)),
    (Quorum(3, 3, 2, 2), (4, 3, 3)),
    (Quorum(4, 4, 3, 2), (2, 2, 2)),
    (Quorum(5, 3, 2, 2), (3, 3, 3)),  # striped
)


def unreachable_regions(seed: int) -> RunPlan:
    """Return a plan of 60 s in which the writer's host is cut off from a region once or twice."""
    random = Random(f"{seed} unreachable-regions")
    quorum, bookies_by_region = random.choice(_SHAPES)
    regions = THREE_REGIONS.regions
    home = random.choice(regions)
    writer = f"app-{home}"
    faults: list[Fault] = []
    at_ms = random.randint(4_000, 8_000)
    for _ in range(random.choice((1, 1, 2))):
        region = random.choice([name for name in regions if name != home])
        lasts_ms = random.choice((9_000, 15_000, 35_000))
        faults.append(Fault(_CUT, f"{writer}>{region}", at_ms, lasts_ms))
        at_ms += lasts_ms + random.randint(12_000, 15_000)
    return RunPlan(
        seed=f"{seed} unreachable-regions",
        topology=THREE_REGIONS,
        bookies_by_region=bookies_by_region,
        settings=SimClusterSettings(
            policy=StreamPolicy(
                quorum=quorum,
                flush=FlushPolicy(period_ms=0),
                roll_ms=random.choice((2_000, 3_000)),
            ),
            ledger=LedgerConfig(request_timeout_ms=1_000, underreplicated_ms_max=2_000),
            log_file_bytes=256 * KIB,
        ),
        habits=WriterHabits(pause_ms=random.choice((200, 500)), stops_when_replaced=True),
        faults=tuple(faults),
        writers=((0, writer),),
        readers=(writer,),
        lasts_ms=LASTS_MS,
        appends_max=2_000,
        run=UnreachableRun,
    )


class UnreachableRun(SeedRun):
    """A run that records from which region its only writer was cut off, and when."""

    def record(self) -> RunRecord:
        """Return the record of the run, with the cuts."""
        record = super().record()
        record.unreachable_regions = [
            UnreachableRegion(fault.target.rpartition(">")[2], at_ms, at_ms + fault.lasts_ms)
            for at_ms, fault in self.cluster.faults_begun
            if fault.kind == _CUT
        ]
        return record

    def _states(self) -> dict[str, int]:
        seen = super()._states()
        created = [versions[0].at_ms for versions in self._ledger_versions().values()]
        seen["ledgers made while cut off"] = sum(
            cut.from_ms + LEARNS_MS <= at_ms <= cut.to_ms
            for at_ms in created
            for cut in self.record().unreachable_regions
        )
        return seen
