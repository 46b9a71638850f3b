"""The plan ``producers``: ``races`` in which most records come from numbered producers.

Many producers share the stream, and each has one record set under way. They send a set again to the
next owner while its outcome is unknown, and now and then to the same owner before it is
acknowledged. Owners write snapshots of the producers' numbers often, and send few entries at once,
so that sets wait in the owner when it loses the stream. Invariant G16 judges them.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from .....core.log.policy import FlushPolicy
from .....core.log.write.stream_writer import StreamWriter
from .....core.runtime.tasks import Tasks
from ...seed_run import RunPlan
from ...workload.stream_workload import StreamWorkload
from ...workload.workload import Applications
from ..races import races
from ..streams import StreamApplications, StreamsRun

_NUMBERED_SHARE = 0.8


def producers(seed: int) -> RunPlan:
    """Return a plan of ``races`` whose applications send what producers number."""
    random = Random(f"{seed} producers")
    plan = races(seed)
    settings = plan.settings
    return replace(
        plan,
        seed=f"{seed} producers",
        settings=replace(
            settings,
            policy=replace(
                settings.policy,
                flush=FlushPolicy(period_ms=0, bytes_max=100),
                roll_bytes=random.choice((3_000, 512 << 20)),
            ),
            writer=replace(
                settings.writer,
                producers_snapshot_bytes=random.choice((500, 2_000)),
                entries_in_flight_max=random.choice((1, 3)),
            ),
        ),
        habits=replace(
            plan.habits,
            pause_ms=random.choice((5, 30)),
            burst_max=1,
            padding_bytes_max=50,
            awaits_each_burst=False,
            session_appends_max=random.choice((10, 10_000)),
        ),
        readers=(),
        appends_max=500,
        run=ProducersRun,
    )


class _NumberedApplications(StreamApplications):
    """Applications that send numbered sets mostly, and single records otherwise."""

    def _burst(
        self, writer: StreamWriter, session: int, number: int, random: Random, tasks: Tasks
    ) -> int:
        if random.random() < _NUMBERED_SHARE:
            sent = self.producers.send(writer, session, random, self.habits.padding_bytes_max)
            if sent is not None:
                tasks.spawn(sent[1].await_outcome(sent[0]), "record outcomes")
                self.called += 1
            return 0
        return Applications._burst(self, writer, session, number, random, tasks)


class _EndQueries(StreamWorkload):
    """Hosts that do nothing else but query the end of the stream now and then."""

    operations: Mapping[str, int] = {"query_end": 1}


class ProducersRun(StreamsRun):
    """A run of ``streams`` with more producers, some of which repeat a set too early."""

    workload = _EndQueries
    applications = _NumberedApplications
    producer_count = 12
    repeat_share = 0.2
