"""One run from its plan: found a cluster, let applications work while faults happen, heal, judge.

A plan says everything that a seed decided, so a run can be repeated with parts of it left out.

The end of each run is the same. After the last fault all is healed; then a writer of another region
must be able to take the stream over and append (liveness, within a bound); the stream is read from
its start in every region; every bookie is asked for every entry that it should have; the checker
judges what was seen.
"""

import asyncio
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...core.log.metadata.stream_metadata import StreamRecord
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import RhumblineError
from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.protocol.quorum import QuorumView
from ...core.protocol.segments import Segment, decode_segment
from ...core.wire import ledger_metadata as ledger_codec
from ..checker.history import AppendOutcome, History, RecordedAppend
from ..checker.judge import judge
from ..checker.run_record import LedgerVersion, RunRecord, SegmentVersion, StreamVersions, Violation
from .answer_recorder import AnswerRecorder
from .cluster import NAMESPACE, PORT, STREAM, Fault, SimCluster, SimClusterSettings, until
from .entry_probe import probe
from .faults.faults import schedule
from .faults.triggered_faults import TriggeredFaults
from .repair import repair_host, run_repair
from .workload.workload import Applications, WriterHabits
from .world.loop import SimulationFailedError
from .world.metadata import Commit, ledger_id_of
from .world.sim_world import SimHost, SimTopology, SimWorld
from .world.wiretap import Wiretap

RESUME_S_MAX = 60.0
"""After the faults: how long a new writer may take to open, append and close; so each reader."""

FINAL_APPENDS = 10
TIME_LIMIT_S = 3600.0

STATES = (
    "ensemble changes",
    "ledger closed",
    "ledger in_recovery",
    "ledger open",
    "recovery entry absent",
    "recovery entry incomplete",
    "recovery entry recover",
    "recovery fence complete",
    "recovery fence incomplete",
    "segments",
    "sessions",
)
"""What coverage counts; see ``RunResult.states``."""

LIVENESS = {
    "V3": "each append that waited when the faults ended has an outcome soon",
    "V5": "a reader in each region reads everything soon after the faults",
    "V7": "a new writer takes the stream over and appends soon after the faults",
    "V9": "every bookie serves again soon after the faults",
}
"""What must happen after the faults, within ``RESUME_S_MAX``; the judge sees only what was."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that a seed decided."""

    seed: str
    topology: SimTopology
    bookies_by_region: tuple[int, ...]
    settings: SimClusterSettings
    habits: WriterHabits
    faults: tuple[Fault, ...]
    writers: tuple[tuple[int, str], ...]
    """(ms, host): from when on who is told to write."""
    readers: tuple[str, ...]
    """Client hosts that tail the stream."""
    lasts_ms: int
    appends_max: int
    repairs: tuple[str, ...] = ()
    """Regions in which repair runs."""
    run: "type[SeedRun] | None" = None
    """What runs it, if that is more than ``SeedRun``."""

    def without(self, fault: Fault) -> "RunPlan":
        """The same with one fault less."""
        return replace(self, faults=tuple(one for one in self.faults if one is not fault))


@dataclass(slots=True)
class RunResult:
    """What came of a run."""

    plan: RunPlan
    violations: list[Violation] = field(default_factory=list)
    digest: str = ""
    virtual_s: float = 0.0
    events: int = 0
    messages: int = 0
    acked: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    """Coverage: which protocol states were seen how often."""
    overlaps: dict[str, int] = field(default_factory=dict)
    """By kind of fault: the fewest appends that were under way while one lasted."""
    orphans: int = 0
    """Ledgers that were left behind: made for a segment, and never named by one. No violation."""
    lines: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations


def run_plan(plan: RunPlan, *, on_line: Callable[[str], None] | None = None) -> RunResult:
    """Runs a plan in a world of its own. Raises nothing: a failed run is a violation, too."""
    result = RunResult(plan)
    with SimWorld(plan.seed, plan.topology, on_line=on_line) as world:
        run = (plan.run or SeedRun)(world, plan)
        if on_line is not None:
            Wiretap(world.network)
        try:
            world.run(run.play(), time_limit_s=TIME_LIMIT_S)
            result.violations = run.judged()
        except LivenessError as error:
            result.violations = [Violation(error.id, str(error)), *run.judged()]
        except Exception as error:  # of production code in the run: that is what a run is for
            result.violations = [Violation("CRASH", story_of(error))]
        run.account(result)
    return result


class LivenessError(Exception):
    """Something that had to happen after the faults did not: the promise ``id`` is broken."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(words)
        self.id = name


class SeedRun:
    """The course of one run."""

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        self.world = world
        self.plan = plan
        self.cluster = SimCluster(world, plan.settings, plan.bookies_by_region)
        self.witness = AnswerRecorder(self.cluster)
        self.menders = [world.host(repair_host(region), region) for region in plan.repairs]
        self.history = History(lambda: world.loop.now * 1000)
        self.apps = Applications(self.cluster, self.history, plan.habits)
        self.copies: dict[int, dict[tuple[int, str], Any]] = {}
        self.unasked: set[str] = set()

    # --- the course -----------------------------------------------------------------------------

    async def play(self) -> None:
        """From the founding to the last question."""
        world, plan, apps = self.world, self.plan, self.apps
        await self.cluster.found()
        for host in self.cluster.app_hosts:
            apps.start(host, reads=host.name in plan.readers)
        for host in self.menders:
            host.start(partial(run_repair, self.cluster))
        apps.wanted = plan.appends_max
        for at_ms, name in plan.writers:
            world.later(at_ms / 1000, partial(self._tell, name))
        schedule(self.cluster, plan.faults)
        TriggeredFaults(self.cluster, plan.faults, self._tell)
        ends = [fault.at_ms + fault.lasts_ms for fault in plan.faults]
        await asyncio.sleep(max([plan.lasts_ms, *ends]) / 1000 + 0.001)
        world.heal_everything()
        world.is_healed = True
        await self._epilogue()

    async def _settle(self, heir: SimHost) -> None:
        """What else is to come to an end before the bookies are asked."""

    def _tell(self, name: str) -> None:
        if not self.world.is_healed:
            self.world.trace.note("world", f"{name} is told to write")
            self.apps.active = name

    async def _epilogue(self) -> None:
        apps = self.apps
        await self._hear_of(apps.pending())
        apps.active = "nobody"  # who writes goes on until it finds out that it has lost
        heir = self.world.random.choice(self.cluster.app_hosts)
        try:
            await self._finish("V7", heir, "a new writer", apps.write_the_end, FINAL_APPENDS)
        except LivenessError:
            if not self._is_undecidable():
                raise
            self.world.trace.note("world", "an end cannot be known: too much was lost for V5, V7")
        else:
            apps.wanted = 0
            end = self._end()
            for host in self.cluster.app_hosts:
                await self._finish("V5", host, "a reader of everything", apps.read_everything, end)
            await self._settle(heir)
        for mender in self.menders:
            mender.kill("is done")  # or copies would move while bookies are asked for them
        await asyncio.sleep(1.0)
        await self._finish("V9", heir, "asking the bookies", self._ask_all, self._closed_ledgers())

    async def _hear_of(self, appends: list[RecordedAppend]) -> None:
        """Each append that waited when the faults ended has an outcome soon (V3)."""
        tokens = {append.token for append in appends}

        def waiting() -> list[RecordedAppend]:
            return [append for append in self.apps.pending() if append.token in tokens]

        try:
            async with asyncio.timeout(RESUME_S_MAX):
                await until(lambda: not waiting())
        except TimeoutError as error:
            raise LivenessError(
                "V3", f"{waiting()[0]} waits for {RESUME_S_MAX:.0f} s after the faults"
            ) from error

    async def _finish(
        self, name: str, host: SimHost, what: str, work: Callable[..., Any], *args: object
    ) -> None:
        """Runs ``work`` in the process on ``host``, to its end."""
        try:
            async with asyncio.timeout(RESUME_S_MAX):
                await host.spawn(work(host, *args), what)
        except (TimeoutError, RhumblineError) as error:
            words = f"{type(error).__name__}: {error}".rstrip(": ")
            raise LivenessError(name, f"{what} on {host.name} after the faults: {words}") from error

    def _segments(self) -> dict[int, Segment]:
        versions = self._segment_versions()
        return {lssn: seen[-1].segment for lssn, seen in versions.items() if seen[-1].segment}

    def _end(self) -> Dlsn:
        """Behind the last entry of the stream."""
        segments = self._segments()
        last = segments[max(n for n, segment in segments.items() if not segment.is_empty)]
        return Dlsn(last.lssn, last.last_entry_id + 1, 0)

    def _closed_ledgers(self) -> list[LedgerMetadata]:
        last = [versions[-1].metadata for versions in self._ledger_versions().values()]
        return [m for m in last if m is not None and m.state is LedgerState.CLOSED]

    def _is_undecidable(self) -> bool:
        """Whether an unfinished ledger ends nobody may say where: of its last ensemble so many are
        wiped, or in limbo after all of them lost power, that the rest cannot exclude an ack."""
        silent = dict.fromkeys(self.cluster.lost)
        for bookie in self.cluster.bookies.values():
            if bookie.storage.states.limbo.is_active:
                silent[bookie.bookie_id] = None
        for metadata in self.cluster.ledgers_now():
            if metadata.state is LedgerState.CLOSED:
                continue
            members = metadata.last_fragment.bookies
            quorum = metadata.quorum_at(metadata.last_fragment.first_entry_id)
            view = QuorumView(quorum, [self.cluster.regions.get(one) for one in members])
            heard = sum(1 << index for index, one in enumerate(members) if one not in silent)
            if not view.is_fencing_complete(heard):
                return True
        return False

    async def _ask_all(self, host: SimHost, ledgers: list[LedgerMetadata]) -> None:
        self.copies = {metadata.ledger_id: {} for metadata in ledgers}
        give_up_at = self.world.loop.now + RESUME_S_MAX / 2
        for bookie_host in self.cluster.bookie_hosts:
            name = bookie_host.name
            while True:
                found = await probe((name, PORT), self.cluster.ids[name], ledgers)
                if found is not None or self.world.loop.now > give_up_at:
                    break
                await asyncio.sleep(1.0)  # it may be starting again
            bookie_id = self.cluster.ids[name]
            if found is None:
                self.unasked.add(bookie_id)
                continue
            for (ledger_id, entry_id), copy in found.items():
                self.copies[ledger_id][entry_id, bookie_id] = copy

    # --- what is judged -------------------------------------------------------------------------

    def _ledger_versions(self) -> dict[int, list[LedgerVersion]]:
        found: dict[int, list[LedgerVersion]] = {}
        for commit in self.world.metadata.tree.history:
            ledger_id = ledger_id_of(commit.path)
            if ledger_id is not None and commit.data != b"":
                metadata = None
                if commit.data is not None:
                    metadata = ledger_codec.decode(ledger_id, commit.data)
                found.setdefault(ledger_id, []).append(LedgerVersion(commit.at_ms, metadata))
        return found

    def _stream_versions(self, stream: str = STREAM) -> StreamVersions:
        found = StreamVersions()
        node = f"/rhumbline/namespaces/{NAMESPACE}/streams/{stream}"
        for commit in self.world.metadata.tree.history:
            if commit.path == node:
                _add_record(found, stream, commit)
            elif commit.path.startswith(f"{node}/segments/"):
                lssn = int(commit.path[len(node) + 10 :])
                segment = None if commit.data is None else decode_segment(lssn, commit.data)
                version = SegmentVersion(commit.at_ms, segment)
                found.segments.setdefault(lssn, []).append(version)
        return found

    def _segment_versions(self) -> dict[int, list[SegmentVersion]]:
        return self._stream_versions().segments

    def judged(self) -> list[Violation]:
        """What is broken."""
        return judge(self.record())

    def record(self) -> RunRecord:
        """For the judge."""
        stored = self._stream_versions()
        return RunRecord(
            history=self.history,
            ledgers=self._ledger_versions(),
            segments=stored.segments,
            stored=stored,
            streams={STREAM: stored},
            swaps=self.world.metadata.swaps,
            regions=dict(self.cluster.regions),
            lost=frozenset(self.cluster.lost),
            liars=frozenset(self.cluster.liars),
            copies=self.copies,
            unasked=frozenset(self.unasked),
            evidence=self.cluster.evidence,
            testimony=replace(self.witness.testimony, durable=self.cluster.durable),
        )

    def account(self, result: RunResult) -> None:
        """Fills in the figures."""
        world = self.world
        result.digest = world.trace.digest()
        result.virtual_s = world.loop.now
        result.events = world.loop.handles_run
        result.messages = world.network.messages
        result.acked = self.apps.acked
        result.outcomes = {o.value: len(self.history.of_outcome(o)) for o in AppendOutcome}
        result.faults = dict(world.trace.counts)
        result.lines = world.trace.lines
        result.states = self._states()
        result.overlaps = self._overlaps()
        result.orphans = len(self.record().orphans())

    def _overlaps(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for begin_ms, fault in self.cluster.faults_begun:
            end_ms = begin_ms + fault.lasts_ms
            count = sum(
                1
                for append in self.history.appends.values()
                if append.called_ms < end_ms
                and (append.ended_ms is None or append.ended_ms > begin_ms)
            )
            found[fault.kind] = min(count, found.get(fault.kind, count))
        return found

    def _states(self) -> dict[str, int]:
        seen: dict[str, int] = {}
        for versions in self._ledger_versions().values():
            for version in versions:
                if version.metadata is not None:
                    name = f"ledger {version.metadata.state.name.lower()}"
                    seen[name] = seen.get(name, 0) + 1
            last = versions[-1].metadata
            if last is not None and len(last.fragments) > 1:
                seen["ensemble changes"] = seen.get("ensemble changes", 0) + len(last.fragments) - 1
        for evidence in self.cluster.evidence:
            kind = "fence" if evidence.entry_id is None else "entry"
            name = f"recovery {kind} {evidence.verdict.value}"
            seen[name] = seen.get(name, 0) + 1
        seen["sessions"] = self.history.session_count
        seen["segments"] = len(self._segment_versions())
        return seen


def _add_record(found: StreamVersions, stream: str, commit: Commit) -> None:
    record = None if commit.data is None else StreamRecord.decode(stream, commit.data)
    if record is not None:
        found.starts.append((commit.at_ms, record.start))
    if found.deleting_ms is None and (record is None or record.is_deleting):
        found.deleting_ms = commit.at_ms


def story_of(error: BaseException) -> str:
    """An exception of a run, and where it was raised, for a result."""
    cause = error.__cause__ if isinstance(error, SimulationFailedError) else error
    lines = traceback.format_exception(cause or error)
    return f"{error}\n{''.join(lines)}" if cause is not error else "".join(lines)
