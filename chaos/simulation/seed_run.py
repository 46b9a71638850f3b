"""A simulated run of one seed: start a cluster, run a workload, inject faults, heal, check.

A ``RunPlan`` is data that a plan function draws from a seed; a ``SeedRun`` executes it. Because the
plan holds everything that the seed decided, a run can be repeated with some faults left out. This
is not the scenario of ``chaos.lab.scenario``, which a person writes in a TOML file and which can
also run on real processes: the lab translates its scenarios to a ``RunPlan`` to run them here.

Every run ends the same way. After the last fault everything is healed. Then a writer in a randomly
chosen region must take the stream over and append within ``RESUME_S_MAX`` (liveness), the stream is
read from its start in every region, every bookie is asked for every entry that it should have, and
the checker evaluates the invariants of ``docs/protocol/invariants.md``.
"""

import asyncio
import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
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
from ..checker.run_record import (
    LedgerVersion,
    MachineFault,
    RunRecord,
    SegmentVersion,
    StreamVersions,
    Violation,
)
from .answer_recorder import AnswerRecorder
from .cluster import NAMESPACE, PORT, STREAM, Fault, SimCluster, SimClusterSettings, until
from .coverage import TransitionCoverage
from .entry_probe import read_entries
from .faults.faults import schedule
from .faults.triggered_faults import TriggeredFaults
from .repair import repair_host, run_repair
from .workload.workload import NO_WRITER, Applications, WriterHabits
from .world.loop import SimulationFailedError
from .world.metadata import Commit, ledger_id_of
from .world.sim_world import SimHost, SimTopology, SimWorld
from .world.wiretap import Wiretap

RESUME_S_MAX = 60.0
"""Time after the faults for a new writer to open, append and close, and for each final reader."""

ROUND_TRIPS_PER_SEGMENT = 8
"""Twice the round trips, one after the other, of a reader that goes from segment to segment."""

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
"""Protocol states that are counted as coverage; see ``RunResult.states``."""

LIVENESS = {
    "V3": "each append that was pending when the faults ended has an outcome soon",
    "V5": "a reader in each region reads everything soon after the faults",
    "V7": "a new writer takes the stream over and appends soon after the faults",
    "V10": "a record of a writer that pauses is readable soon after the faults",
    "V9": "every bookie serves again soon after the faults",
    "G54": "every copy that a failed data directory held is restored soon after the faults",
    "G56": "every completed segment is archived soon after the faults",
}
"""Liveness invariants: verified while a run ends, within ``RESUME_S_MAX``, not from its record."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Everything that a seed decided about a run."""

    seed: str
    """Seeds every random generator of the run, so its text is part of the run's identity."""
    topology: SimTopology
    bookies_by_region: tuple[int, ...]
    settings: SimClusterSettings
    habits: WriterHabits
    faults: tuple[Fault, ...]
    writers: tuple[tuple[int, str], ...]
    """(ms, host): the application that becomes the active writer, and when."""
    readers: tuple[str, ...]
    """Application hosts that tail the stream."""
    lasts_ms: int
    appends_max: int
    repairs: tuple[str, ...] = ()
    """Regions in which a repair service runs."""
    run: "Callable[[SimWorld, RunPlan], SeedRun] | None" = None
    """Makes the run that executes the plan; None: ``SeedRun``."""

    def without(self, fault: Fault) -> "RunPlan":
        """Return the plan without ``fault``."""
        return replace(self, faults=tuple(other for other in self.faults if other is not fault))


@dataclass(slots=True)
class RunResult:
    """The outcome of a run: violations, counters and coverage."""

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
    """Coverage: how often each protocol state was seen."""
    overlaps: dict[str, int] = field(default_factory=dict)
    """For each kind of fault, the smallest number of appends in progress while one lasted."""
    situations: tuple[int, ...] = ()
    """The situations that the run reached; see ``TransitionCoverage``."""
    orphans: int = 0
    """Ledgers that were created for a segment which was never published; not a violation."""
    lines: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """True if no invariant was violated."""
        return not self.violations


def run_plan(
    plan: RunPlan,
    *,
    on_line: Callable[[str], None] | None = None,
    on_end: "Callable[[SeedRun], None]" = lambda run: None,
) -> RunResult:
    """Run a plan in a new world. Raises nothing: an exception of the run becomes a violation.

    ``on_end`` is called with the run after it was checked.
    """
    result = RunResult(plan)
    coverage = TransitionCoverage()
    with SimWorld(plan.seed, plan.topology, on_line=on_line) as world, coverage:
        run = (plan.run or SeedRun)(world, plan)
        if on_line is not None:
            Wiretap(world.network)
        try:
            world.run(run.play(), time_limit_s=TIME_LIMIT_S)
            result.violations = run.check()
        except LivenessError as error:
            result.violations = [Violation(error.id, str(error)), *run.check()]
        except Exception as error:  # raised by the production code under test
            result.violations = [Violation("CRASH", describe_failure(error))]
        run.fill_result(result)
        result.situations = tuple(coverage.situations)
        on_end(run)
    return result


class LivenessError(Exception):
    """The liveness invariant ``id`` is violated: something did not happen after the faults."""

    def __init__(self, invariant_id: str, message: str) -> None:
        super().__init__(message)
        self.id = invariant_id


class SeedRun:
    """Executes one plan in a world and collects what the checker needs."""

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        self.world = world
        self.plan = plan
        self.cluster = SimCluster(world, plan.settings, plan.bookies_by_region)
        self.answer_recorder = AnswerRecorder(self.cluster)
        self.repairers = [world.host(repair_host(region), region) for region in plan.repairs]
        self.history = History(lambda: world.loop.now * 1000)
        self.apps = Applications(self.cluster, self.history, plan.habits)
        self.copies: dict[int, dict[tuple[int, str], Any]] = {}
        self._copies_read_ms = inf
        self.unreachable: set[str] = set()

    # --- phases of a run ------------------------------------------------------------------------

    async def play(self) -> None:
        """Run all phases, from starting the cluster to verifying its end state."""
        world, plan, apps = self.world, self.plan, self.apps
        await self.cluster.bootstrap()
        for host in self.cluster.app_hosts:
            apps.start(host, reads=host.name in plan.readers)
        for host in self.repairers:
            host.start(partial(run_repair, self.cluster))
        apps.appends_max = plan.appends_max
        for at_ms, name in plan.writers:
            world.later(at_ms / 1000, partial(self._set_active_writer, name))
        schedule(self.cluster, plan.faults)
        TriggeredFaults(self.cluster, plan.faults, self._set_active_writer)
        ends = [fault.at_ms + fault.lasts_ms for fault in plan.faults]
        await asyncio.sleep(max([plan.lasts_ms, *ends]) / 1000 + 0.001)
        world.heal_everything()
        world.is_healed = True
        await self._verify_end_state()

    async def _finish_workload(self, successor: SimHost) -> None:
        """Finish workloads of a subclass before the bookies' entries are read."""

    def _set_active_writer(self, name: str) -> None:
        if not self.world.is_healed:
            self.world.trace.note("world", f"{name} becomes the active writer")
            self.apps.active_writer = name

    async def _verify_end_state(self) -> None:
        apps = self.apps
        await self._await_outcomes(apps.pending())
        apps.active_writer = NO_WRITER  # an active writer continues until it is fenced
        successor = self.world.random.choice(self.cluster.app_hosts)
        try:
            await self._run_within_bound(
                "V7", successor, "a new writer", apps.write_final_records, FINAL_APPENDS
            )
        except LivenessError:
            if not self._is_undecidable():
                raise
            self.world.trace.note("world", "a ledger's end is undecidable: V5 and V7 do not apply")
        else:
            apps.appends_max = 0
            end = self._stream_end()
            for host in self.cluster.app_hosts:
                await self._run_within_bound(
                    "V5",
                    host,
                    "a reader of everything",
                    apps.read_everything,
                    end,
                    bound_s=RESUME_S_MAX + self._reading_s(),
                )
            await self._finish_workload(successor)
        for repairer in self.repairers:
            repairer.kill("is done")  # or copies would move while they are read
        await asyncio.sleep(1.0)
        await self._run_within_bound(
            "V9",
            successor,
            "reading the bookies' entries",
            self._probe_bookies,
            self._closed_ledgers(),
        )

    async def _await_outcomes(self, appends: list[RecordedAppend]) -> None:
        """Wait until each of ``appends`` has an outcome (invariant V3)."""
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

    async def _run_within_bound(
        self,
        name: str,
        host: SimHost,
        what: str,
        work: Callable[..., Any],
        *args: object,
        bound_s: float = RESUME_S_MAX,
    ) -> None:
        """Run ``work`` in the process on ``host``. Raises LivenessError ``name`` if it fails."""
        try:
            async with asyncio.timeout(bound_s):
                await host.spawn(work(host, *args), what)
        except (TimeoutError, RhumblineError) as error:
            words = f"{type(error).__name__}: {error}".rstrip(": ")
            raise LivenessError(name, f"{what} on {host.name} after the faults: {words}") from error

    def _reading_s(self) -> float:
        """Return how long the reader that is farthest away may take from segment to segment."""
        farthest_ms = max((delay_ms for _, _, delay_ms in self.plan.topology.delays_ms), default=0)
        trips = ROUND_TRIPS_PER_SEGMENT * len(self._segments())
        return trips * 2 * farthest_ms / 1000

    def _segments(self) -> dict[int, Segment]:
        versions = self._segment_versions()
        return {lssn: seen[-1].segment for lssn, seen in versions.items() if seen[-1].segment}

    def _stream_end(self) -> Dlsn:
        """Return the position behind the last entry of the stream."""
        segments = self._segments()
        last = segments[max(n for n, segment in segments.items() if not segment.is_empty)]
        return Dlsn(last.lssn, last.last_entry_id + 1, 0)

    def _closed_ledgers(self) -> list[LedgerMetadata]:
        last = [versions[-1].metadata for versions in self._ledger_versions().values()]
        return [m for m in last if m is not None and m.state is LedgerState.CLOSED]

    def _deleted_ledgers(self) -> set[int]:
        versions = self._ledger_versions()
        return {ledger for ledger, seen in versions.items() if seen[-1].metadata is None}

    def _is_undecidable(self) -> bool:
        """True if no recovery may say where some unfinished ledger ends (rule REC-12).

        So many bookies of its last ensemble were wiped, or are in limbo after a power failure, that
        the others cannot exclude that an entry was acknowledged.
        """
        silent = dict.fromkeys(self.cluster.lost)
        for bookie in self.cluster.bookies.values():
            if bookie.storage.states.limbo.is_active:
                silent[bookie.bookie_id] = None
        for metadata in self.cluster.ledgers_now():
            if metadata.state is LedgerState.CLOSED:
                continue
            members = metadata.last_fragment.bookies
            quorum = metadata.quorum_at(metadata.last_fragment.first_entry_id)
            view = QuorumView(quorum, [self.cluster.regions.get(bookie) for bookie in members])
            answering = sum(
                1 << index for index, bookie in enumerate(members) if bookie not in silent
            )
            if not view.is_fencing_complete(answering):
                return True
        return False

    async def _probe_bookies(self, host: SimHost, ledgers: list[LedgerMetadata]) -> None:
        self.copies = {metadata.ledger_id: {} for metadata in ledgers}
        self._copies_read_ms = self.world.loop.now * 1000
        give_up_at = self.world.loop.now + RESUME_S_MAX / 2
        for bookie_host in self.cluster.bookie_hosts:
            name = bookie_host.name
            while True:
                found = await read_entries((name, PORT), self.cluster.bookie_ids[name], ledgers)
                if found is not None or self.world.loop.now > give_up_at:
                    break
                await asyncio.sleep(1.0)  # it may be restarting
            bookie_id = self.cluster.bookie_ids[name]
            if found is None:
                self.unreachable.add(bookie_id)
                continue
            for (ledger_id, entry_id), copy in found.items():
                self.copies[ledger_id][entry_id, bookie_id] = copy

    # --- the record for the checker -------------------------------------------------------------

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

    def check(self) -> list[Violation]:
        """Return all violations in what was recorded of the run."""
        return judge(self.record())

    def record(self) -> RunRecord:
        """Return the record of the run for the checker."""
        stored = self._stream_versions()
        return RunRecord(
            history=self.history,
            ledgers=self._ledger_versions(),
            segments=stored.segments,
            stored=stored,
            streams={STREAM: stored},
            purge_grace_ms=self._purge_grace_ms(),
            compare_and_sets=self.world.metadata.compare_and_sets,
            regions=dict(self.cluster.regions),
            lost=frozenset(self.cluster.lost),
            lying_bookies=frozenset(self.cluster.lying_bookies),
            copies=self.copies,
            copies_read_ms=self._copies_read_ms,
            unreachable=frozenset(self.unreachable),
            evidence=self.cluster.evidence,
            takeovers=self.cluster.takeovers,
            seals=self.cluster.seals,
            slow_departures=self.cluster.slow_departures,
            stale_reads_ms=self.cluster.stale_reads_ms,
            slow_hold_ms=self.plan.settings.ledger.slow_hold_ms,
            machines=dict(self.cluster.machines),
            machine_faults=self._machine_faults(),
            observed=replace(self.answer_recorder.observed, durable=self.cluster.durable),
        )

    def _machine_faults(self) -> list[MachineFault]:
        return [
            MachineFault(fault.target, begin_ms, begin_ms + fault.lasts_ms)
            for begin_ms, fault in self.cluster.faults_begun
            if fault.target in self.cluster.machines.values()
        ]

    def _purge_grace_ms(self) -> int | None:
        """Return the grace period; None if a clock is wrong, because clocks measure it."""
        if any(fault.kind == "skew" for fault in self.plan.faults):
            return None
        return self.plan.settings.policy.purge_grace_ms

    def fill_result(self, result: RunResult) -> None:
        """Fill in the counters and the coverage of a result."""
        world = self.world
        result.digest = world.trace.digest()
        result.virtual_s = world.loop.now
        result.events = world.loop.handles_run
        result.messages = world.network.messages
        result.acked = self.apps.acked
        result.outcomes = {
            o.value: len(self.history.appends_with_outcome(o)) for o in AppendOutcome
        }
        result.faults = dict(world.trace.counts)
        result.lines = world.trace.lines
        result.states = self._states()
        result.overlaps = self._overlaps()
        result.orphans = len(self.record().orphans())

    def _rebalanced_copies(self) -> int:
        """Return the copies that were moved for orders to rebalance, as their progress says."""
        moved: dict[int, int] = {}
        for commit in self.world.metadata.tree.history:
            if commit.path.endswith("/rhumbline/rebalance/progress") and commit.data:
                progress = json.loads(commit.data)
                moved[progress["ordered_ms"]] = progress["moved_copies"]
        return sum(moved.values())

    def _returned_copies(self) -> int:
        """Return the number of ledgers whose copies a bookie returned, over all bookies."""
        last = [versions[-1].metadata for versions in self._ledger_versions().values()]
        return sum(metadata.return_count for metadata in last if metadata is not None)

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
        seen["copies rebalanced"] = self._rebalanced_copies()
        seen["copies returned"] = self._returned_copies()
        seen["stale reads"] = len(self.cluster.stale_reads_ms)
        seen["slow departures"] = len(self.cluster.slow_departures)
        seen["takeovers by repair"] = len(self.cluster.takeovers)
        seen["takeovers beside a sleeper"] = self.cluster.sleepers_met
        seen["seals"] = len(self.cluster.seals)
        seen["sessions"] = self.history.session_count
        seen["segments"] = len(self._segment_versions())
        return seen


def _add_record(found: StreamVersions, stream: str, commit: Commit) -> None:
    record = None if commit.data is None else StreamRecord.decode(stream, commit.data)
    if record is not None:
        found.starts.append((commit.at_ms, record.start))
    if found.deleting_ms is None and (record is None or record.is_deleting):
        found.deleting_ms = commit.at_ms


def describe_failure(error: BaseException) -> str:
    """Return an exception of a run with its traceback as text."""
    cause = error.__cause__ if isinstance(error, SimulationFailedError) else error
    lines = traceback.format_exception(cause or error)
    return f"{error}\n{''.join(lines)}" if cause is not error else "".join(lines)
