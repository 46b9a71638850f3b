"""The plan ``conditions``: racing writers append on condition, and several records together.

Writers take over from each other as in ``races``. Part of their appends expect the stream to end at
a position: mostly behind the newest record that any application was told of, sometimes at an older
one. Others are atomic batches that are larger than what an entry gathers. Invariants G31 and G14
judge them.
"""

from collections import deque
from dataclasses import replace
from random import Random

from ....core.log.policy import FlushPolicy
from ....core.log.write.batch import AppendMany
from ....core.log.write.stream_writer import StreamWriter
from ....core.protocol.dlsn import FIRST_DLSN, Dlsn
from ....core.protocol.errors import EndMismatchError, RhumblineError
from ....core.runtime.tasks import Tasks
from ...checker.history import RecordedAppend
from ..seed_run import RunPlan, SeedRun
from ..workload.workload import Applications
from ..world.sim_world import SimWorld
from .races import races

_KNOWN_MAX = 4
"""Number of newest ends that applications choose from."""


def conditions(seed: int) -> RunPlan:
    """Return a plan of ``races`` with conditional and atomic appends."""
    random = Random(f"{seed} conditions")
    plan = races(seed)
    settings = plan.settings
    return replace(
        plan,
        seed=f"{seed} conditions",
        settings=replace(
            settings,
            policy=replace(
                settings.policy,
                flush=FlushPolicy(period_ms=0, bytes_max=100),
                keepalive_ms=random.choice((None, 100, 400)),
                roll_bytes=random.choice((2_000, 512 << 20)),
            ),
        ),
        habits=replace(
            plan.habits,
            burst_max=random.choice((2, 6)),
            awaits_each_burst=random.random() < 0.5,
            session_appends_max=random.choice((5, 40, 10_000)),
        ),
        run=ConditionsRun,
    )


class _ConditionalApplications(Applications):
    """Applications that tell each other the ends of the stream that they were told."""

    _ends: deque[Dlsn]
    conditional: dict[str, int]

    def _burst(
        self, writer: StreamWriter, session: int, number: int, random: Random, tasks: Tasks
    ) -> int:
        kind = random.choice(("plain", "atomic", "conditional", "conditional"))
        if kind == "plain":
            return super()._burst(writer, session, number, random, tasks)
        expected = self._choose_end(random) if kind == "conditional" else None
        appends = []
        for index in range(random.randint(1, self.habits.burst_max)):
            padding = b"." * random.randrange(self.habits.padding_bytes_max)
            append = self.history.begin_append(session, number + index, padding)
            append.group, append.expected = session * 1_000_000 + number + 1, expected
            appends.append(append)
        self.called += len(appends)
        payloads = [append.payload for append in appends]
        try:
            many = writer.append_many(payloads, atomic=True, expected=expected)
        except RhumblineError as error:
            self._fail(appends, error)
            raise
        tasks.spawn(self._record_one_outcome(many, appends), "record outcomes")
        return len(appends)

    def _choose_end(self, random: Random) -> Dlsn:
        end = self._ends[-1] if random.random() < 0.7 else random.choice(self._ends)
        # Positions after a record that mean the same end, if no other record follows.
        return random.choice((end, end, Dlsn(end.lssn, end.entry_id + (end.slot > 0), 0)))

    async def _record_one_outcome(self, many: AppendMany, appends: list[RecordedAppend]) -> None:
        """Record the outcome of records that are appended together."""
        try:
            result = await many
        except RhumblineError as error:
            kind = "refused" if isinstance(error, EndMismatchError) else "failed"
            for append in appends:
                if isinstance(error, EndMismatchError):
                    append.named_end = error.end
                self._failed(append, error)
            if isinstance(error, EndMismatchError) and error.end is not None:
                self._learn(error.end)
        else:
            kind = "appended"
            for append, dlsn in zip(appends, many.dlsns(), strict=True):
                self._acked(append, dlsn, result.regions, has_own_outcome=False)
        if appends[0].expected is not None:
            self.conditional[kind] = self.conditional.get(kind, 0) + 1

    def _acked(
        self,
        append: RecordedAppend,
        dlsn: Dlsn,
        regions: tuple[str, ...],
        *,
        has_own_outcome: bool = True,
    ) -> None:
        super()._acked(append, dlsn, regions, has_own_outcome=has_own_outcome)
        self._learn(Dlsn(dlsn.lssn, dlsn.entry_id, dlsn.slot + 1))

    def _learn(self, end: Dlsn) -> None:
        if end > self._ends[-1]:
            self._ends.append(end)


class ConditionsRun(SeedRun):
    """A run of ``conditions``."""

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        super().__init__(world, plan)
        self.apps = self._conditional = _ConditionalApplications(
            self.cluster, self.history, plan.habits
        )
        self._conditional._ends = deque([FIRST_DLSN], maxlen=_KNOWN_MAX)
        self._conditional.conditional = {}

    def _states(self) -> dict[str, int]:
        seen = super()._states()
        for kind, number in sorted(self._conditional.conditional.items()):
            seen[f"conditional {kind}"] = number
        return seen
