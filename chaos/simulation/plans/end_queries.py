"""The plan ``end-queries``: the end of a stream is queried where a quorum cannot be reached.

The metadata store lies in one region. This region is cut off from the others every now and then, so
that a host in it still opens the stream, but reaches only bookies that miss the newest entries. The
writer is in another region and continues, because the bookies outside satisfy P. A host that
reports an end must have read it from a quorum (invariant G6).
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from ....core.log.policy import FlushPolicy
from ....core.protocol.quorum import Quorum
from ..cluster import Fault
from ..seed_run import RunPlan
from ..workload.stream_workload import StreamWorkload
from .races import races
from .streams import StreamsRun
from .swarm import REGIONS

LASTS_MS = 10_000

_SHAPES = (
    # quorum, bookies by region
    (Quorum(3, 3, 2, 2), (1, 1, 1)),
    (Quorum(3, 3, 2, 1), (1, 1, 1)),
    (Quorum(3, 3, 2, 2), (2, 2, 2)),
    (Quorum(5, 5, 3, 2), (2, 2, 2)),
    (Quorum(4, 3, 2, 2), (2, 2, 2)),  # striped
)


def end_queries(seed: int) -> RunPlan:
    """Return a plan in which the region of the metadata store is cut off several times."""
    random = Random(f"{seed} end-queries")
    plan = races(seed)
    settings = plan.settings
    quorum, bookies_by_region = random.choice(_SHAPES)
    home, *others = random.sample(REGIONS, len(REGIONS))
    faults: list[Fault] = []
    at_ms = random.randint(500, 1_500)
    while at_ms < LASTS_MS:
        lasts_ms = random.choice((500, 1_500, 3_000))
        if random.random() < 0.7:
            faults.append(Fault("cut-region", home, at_ms, lasts_ms))
        else:
            kind = random.choice(("isolate", "mute", "pause"))
            names = [f"bookie-{region}-0" for region in random.sample(REGIONS, 2)]
            faults += [Fault(kind, name, at_ms, lasts_ms) for name in names]
        at_ms += lasts_ms + random.randint(200, 1_500)
    return replace(
        plan,
        seed=f"{seed} end-queries",
        topology=replace(plan.topology, metadata_regions=(home,)),
        bookies_by_region=bookies_by_region,
        settings=replace(
            settings,
            policy=replace(
                settings.policy,
                quorum=quorum,
                flush=FlushPolicy(period_ms=0, bytes_max=100),
                roll_bytes=random.choice((20_000, 512 << 20)),
            ),
            ledger=replace(
                settings.ledger,
                change_mode="delayed",
                on_bookie_failure="replace",
                request_timeout_ms=random.choice((100, 300)),
                underreplicated_ms_max=600_000,
                quorum_timeout_ms=0,
            ),
            writer=replace(settings.writer, failover_ms_max=60_000),
        ),
        habits=replace(plan.habits, pause_ms=30, burst_max=2, awaits_each_burst=False),
        faults=tuple(faults),
        writers=((0, f"app-{random.choice(others)}"),),
        readers=(),
        lasts_ms=LASTS_MS,
        appends_max=600,
        run=EndQueriesRun,
    )


class EndQueries(StreamWorkload):
    """Hosts that query the end of the main stream."""

    operations: Mapping[str, int] = {"query_end": 3, "open_at_latest": 1}
    pause_s_max = 0.2


class EndQueriesRun(StreamsRun):
    """A run of ``streams`` whose hosts query the end of the stream all the time."""

    workload = EndQueries
