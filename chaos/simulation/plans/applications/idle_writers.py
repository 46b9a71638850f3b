"""The plan ``idle-writers``: a writer pauses after each few records, so it sends its LAC alone.

There are three bookies. In turn one of them misses what the writer sends, another one then loses
power, is killed or cannot read its disk, and the third is cut off, so that only the first two tell
readers how far the stream goes. Hosts query the end all the time (invariant G6). After the faults
the writer still has its session and appends nothing, and one bookie is away, as P permits. Every
reader must get the writer's records all the same (invariant V10).
"""

import asyncio
from dataclasses import replace
from random import Random

from .....core.log.policy import FlushPolicy
from .....core.log.write.stream_writer import StreamWriter
from .....core.protocol.dlsn import Dlsn
from .....core.protocol.quorum import Quorum
from .....core.protocol.start import EARLIEST
from .....core.runtime.tasks import Tasks
from ....checker.history import AppendOutcome
from ...cluster import STREAM, Fault
from ...faults.faults import KINDS
from ...seed_run import RunPlan
from ...workload.workload import Applications
from ...world.sim_world import SimHost
from ..end_queries import EndQueries
from ..races import races
from ..streams import StreamApplications, StreamsRun
from ..swarm import REGIONS

LASTS_MS = 10_000
_VISIBILITY_MS = 300
_SETTLE_S = 3.0
"""Time after the faults in which the writer finds out which bookies did not take its LAC."""


def idle_writers(seed: int) -> RunPlan:
    """Return a plan in which the LAC reaches bookies without an entry, and some of them miss it."""
    random = Random(f"{seed} idle-writers")
    plan = races(seed)
    settings = plan.settings
    faults: list[Fault] = []
    at_ms = random.randint(300, 1_500)
    while at_ms < LASTS_MS:
        faults += _round(random, at_ms)
        at_ms = faults[-1].at_ms + faults[-1].lasts_ms + random.randint(100, 1_000)
    faults += _finale(random, at_ms + 1_000)
    return replace(
        plan,
        seed=f"{seed} idle-writers",
        bookies_by_region=(1, 1, 1),
        settings=replace(
            settings,
            policy=replace(
                settings.policy,
                quorum=Quorum(3, 3, 2, random.choice((1, 2))),
                flush=FlushPolicy(
                    period_ms=0, bytes_max=100, visibility_ms=random.choice((0, _VISIBILITY_MS))
                ),
                roll_bytes=512 << 20,
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
        habits=replace(
            plan.habits,
            pause_ms=random.choice((400, 1_500)),
            burst_max=2,
            awaits_each_burst=True,
        ),
        faults=tuple(faults),
        writers=((0, f"app-{random.choice(REGIONS)}"),),
        readers=(),
        lasts_ms=LASTS_MS,
        appends_max=400,
        run=IdleWritersRun,
    )


def _round(random: Random, at_ms: int) -> list[Fault]:
    """Return faults after which two bookies are left: one was behind, the other one was harmed."""
    behind, harmed, away = random.sample([f"bookie-{region}-0" for region in REGIONS], 3)
    lasts_ms = random.choice((400, 1_200))
    back_ms = at_ms + lasts_ms + random.choice((1, 10, 60))
    harm = random.choice(("kill", "power", "read-error"))
    return [
        Fault(random.choice(("mute", "isolate", "pause")), behind, at_ms, lasts_ms),
        Fault(harm, harmed, back_ms, random.choice((20, 100))),
        Fault("isolate", away, back_ms, random.choice((800, 1_500))),
    ]


def _finale(random: Random, at_ms: int) -> list[Fault]:
    """Return faults in which the writer is idle, and after which two bookies may lack its LAC."""
    missing = random.sample([f"bookie-{region}-0" for region in REGIONS], 2)
    begin_ms = at_ms + random.randint(0, _VISIBILITY_MS)
    kind = random.choice(("kill", "isolate"))
    idle = Fault("idle", "writers", at_ms, 2_500)
    return [idle, *(Fault(kind, name, begin_ms, random.randint(500, 1_500)) for name in missing)]


class _PausingApplications(StreamApplications):
    """Applications that append single records. ``writer`` is the newest open writer."""

    writer: StreamWriter | None = None

    def _burst(
        self, writer: StreamWriter, session: int, number: int, random: Random, tasks: Tasks
    ) -> int:
        return Applications._burst(self, writer, session, number, random, tasks)

    def _opened(self, writer: StreamWriter, session: int) -> None:
        super()._opened(writer, session)
        self.writer = writer

    async def read_to(self, host: SimHost, end: Dlsn) -> None:
        """Read the stream from its start to ``end``; it goes on behind it."""
        async with self.cluster.client(host) as client:
            reader = await client.namespace.open_reader(STREAM, EARLIEST)
            try:
                while await reader.next_batch(until=end) is not None:
                    pass
            finally:
                await reader.aclose()


class IdleWritersRun(StreamsRun):
    """A run of ``streams`` at whose end the writer is idle, before another one takes over."""

    workload = EndQueries
    applications = _PausingApplications

    async def _verify_end_state(self) -> None:
        self.cluster.writers_are_idle = True
        await self._await_outcomes(self.apps.pending())
        await asyncio.sleep(_SETTLE_S)
        away = self.world.random_of("who is away").choice(self.cluster.bookie_hosts).name
        end_isolation = KINDS["isolate"](self.cluster, Fault("isolate", away, 0, 0))
        assert end_isolation is not None
        await self._read_behind_the_writer()
        end_isolation()
        self.cluster.writers_are_idle = False
        await super()._verify_end_state()

    async def _read_behind_the_writer(self) -> None:
        """Read what the idle writer had acknowledged, in every region, if it still has the
        stream."""
        assert isinstance(self.apps, _PausingApplications)
        writer = self.apps.writer
        acked = self.history.appends_with_outcome(AppendOutcome.OK)
        last = max((append.dlsn for append in acked if append.dlsn is not None), default=None)
        if writer is None or writer.failure is not None or last is None:
            return
        end = Dlsn(last.lssn, last.entry_id + 1, 0)
        for host in self.cluster.app_hosts:
            await self._run_within_bound(
                "V10", host, "a reader behind an idle writer", self.apps.read_to, end
            )
