"""Plays a scenario in the simulator: production code in virtual time, determined by one seed."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from ...core.bookie.index.tiered_index import NotInMemoryError
from ...core.log.metadata.stream_store import StreamStore
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import RhumblineError
from ...core.protocol.start import EARLIEST
from ...placement.region_aware import RegionAwarePlacement
from ...regions.repair.entry_ranges import settled_ranges
from ...regions.repair.repair_service import RepairService
from ..checker.history import AppendOutcome
from ..simulation.cluster import NAMESPACE, STREAM, SimClusterSettings, until
from ..simulation.seed_run import LivenessError, RunPlan, SeedRun, describe_failure
from ..simulation.workload.workload import Applications, WriterHabits
from ..simulation.world.sim_world import SimHost, SimWorld
from ..simulation.world.sim_world import SimTopology as SimTopology
from ..simulation.world.wiretap import Wiretap
from . import product_settings, sim_faults
from .cold_store import MemoryColdStore, compare_archive
from .fault_kinds import LEADER, OWNER
from .played_scenario import PlayedScenario
from .report.scenario_outcome import Band
from .scenario import SIM, FaultTable, Scenario, app_name, region_of

TIME_LIMIT_S = 3600.0
_BURST_MAX = 3


def plan_of(scenario: Scenario, seed: int) -> RunPlan:
    """Return the simulator's plan; ``ScenarioRun`` schedules faults and writer changes itself."""
    topology, work = scenario.topology, scenario.workload
    return RunPlan(
        seed=f"{seed} scenario {scenario.name}",
        topology=SimTopology(
            topology.regions,
            tuple((*link.between, link.rtt_ms / 2) for link in topology.links),  # type: ignore[misc]
            metadata_regions=topology.members,
        ),
        bookies_by_region=(topology.bookies,) * len(topology.regions),
        settings=SimClusterSettings(
            policy=product_settings.policy_of(scenario),
            ledger=product_settings.LEDGER,
            writer=product_settings.WRITER,
            reader=product_settings.READER,
        ),
        habits=WriterHabits(
            pause_ms=round(1000 * (1 + _BURST_MAX) / work.appends_per_s),
            burst_max=_BURST_MAX,
            stops_when_replaced=True,
        ),
        faults=(),
        writers=(),
        readers=tuple(app_name(region) for region in work.tails or topology.regions),
        lasts_ms=scenario.ends_ms,
        appends_max=1 << 60,
    )


class _ScenarioApplications(Applications):
    """The simulator's applications, with readers that start at the truncation position."""

    start_at: Dlsn | None = None

    async def read_everything(self, host: SimHost, until: Dlsn) -> None:
        """Read from the truncation position to ``until``, as a reader of the whole stream."""
        await self._read_range(host, f"final {host.name}", until, is_complete=True)

    async def catch_up(self, host: SimHost, number: int, until: Dlsn) -> None:
        """Read from the truncation position to ``until``."""
        await self._read_range(host, f"catch-up {number} {host.name}", until, is_complete=False)

    async def _read_range(
        self, host: SimHost, name: str, until: Dlsn, *, is_complete: bool
    ) -> None:
        async with self.cluster.client(host) as client:
            start = self.start_at
            reader = await client.namespace.open_reader(STREAM, start or EARLIEST)
            read = self.history.begin_read(name, start)
            try:
                while await self._take_batch(reader, read, until=until):
                    pass
                read.is_complete = is_complete
            finally:
                await reader.aclose()


class ScenarioRun(SeedRun):
    """A run of one scenario in one simulated world."""

    def __init__(self, world: SimWorld, scenario: Scenario, seed: int) -> None:
        super().__init__(world, plan_of(scenario, seed))
        self.scenario = scenario
        self.cold = MemoryColdStore()
        self.apps = self.programs = _ScenarioApplications(
            self.cluster, self.history, self.plan.habits
        )
        self.result = PlayedScenario(scenario, SIM, seed, self.history)
        self.result.wan = "simulated network with delay, jitter and bandwidth per pair of regions"
        for region_link in scenario.topology.links:
            for pair in (region_link.between, tuple(reversed(region_link.between))):
                link = world.network.link(*pair)
                link.jitter_ms = region_link.jitter_ms / 2
                link.bytes_per_s = region_link.kib_per_s * 1024.0
        regions = scenario.topology.regions
        self.repair_hosts: list[SimHost] = []
        if scenario.workload.repairs:
            self.repair_hosts = [world.host(f"repair-{region}", region) for region in regions]
        self.archiver = world.host("archiver", regions[-1]) if scenario.workload.archives else None
        self.operator_host = world.host("clerk", regions[0])
        """The host on which an operator's truncations run."""

    async def play(self) -> None:
        """Run the scenario from the cluster's bootstrap to the final audit."""
        world, scenario, result = self.world, self.scenario, self.result
        await self.cluster.bootstrap()
        result.start_ms = world.loop.now * 1000
        result.load_ends_ms = float(scenario.ends_ms)
        for host in self.cluster.app_hosts:
            self.apps.start(host, reads=host.name in self.plan.readers)
        self._start_services()
        for turn in scenario.workload.writers:
            world.later(turn.at_ms / 1000, partial(self._set_active_writer, app_name(turn.region)))
        for fault in scenario.schedule():
            world.later(fault.at_ms / 1000, partial(self._inject, fault))
        work = scenario.workload
        self._every(work.catch_up_every_ms, self._catch_up)
        self._every(work.truncate_every_ms, self._truncate)
        await asyncio.sleep(scenario.faults_end_ms / 1000 + 0.001)
        all_copies = asyncio.ensure_future(self._await_all_copies())
        await asyncio.sleep((scenario.ends_ms - scenario.faults_end_ms) / 1000)
        await self._await_resumption()
        await all_copies
        world.heal_everything()
        world.is_healed = True
        result.load_ends_ms = world.loop.now * 1000 - result.start_ms
        await self._verify_end_state()
        if self.archiver is not None:
            read = next(read for read in self.history.reads if read.is_complete)
            result.archived, result.archive_faults = await compare_archive(
                self.cold, NAMESPACE, read
            )

    # --- services of the cluster ------------------------------------------------------------------

    def _start_services(self) -> None:
        for host in self.repair_hosts:
            host.start(self._repair)
        if self.archiver is not None:
            self.archiver.start(self._archive)
        self.operator_host.start(_idle)

    async def _repair(self, host: SimHost) -> None:
        async with self.cluster.client(host) as client:
            placement = RegionAwarePlacement()
            service = RepairService(
                host.runtime(),
                client.store,
                client.ledgers,
                client.directory,
                placement,
                product_settings.REPAIR,
            )
            service.start()
            await asyncio.Event().wait()

    async def _archive(self, host: SimHost) -> None:
        # Archiving needs pyarrow, which other scenarios must not require.
        from ...coldstore.archive.archive_service import ArchiveService, ArchiveServiceConfig
        from ...coldstore.archive.segment_archiver import SegmentArchiver

        async with self.cluster.client(host) as client:
            streams = StreamStore(client.store, NAMESPACE)
            archiver = SegmentArchiver(host.runtime(), self.cold, client.ledgers, streams)
            service = ArchiveService(
                host.runtime(),
                client.store,
                client.namespace,
                archiver,
                config=ArchiveServiceConfig(
                    product_settings.ARCHIVE_PAUSE_MS, product_settings.BOOKIE_SESSION_MS
                ),
            )
            await service.run()

    # --- faults -----------------------------------------------------------------------------------

    def _inject(self, fault: FaultTable) -> None:
        world, result = self.world, self.result
        region = self._region(fault.target)
        name = str(fault).replace(fault.target, region) if fault.target[0] == "@" else str(fault)
        world.trace.note("fault", name)
        undo = sim_faults.begin(self, fault, region)
        now_ms = world.loop.now * 1000 - result.start_ms
        result.bands.append(Band(now_ms, now_ms + fault.lasts_ms, name, fault.regions(region)))
        if undo is not None:

            def end() -> None:
                world.trace.note("fault", f"{name} is over")
                undo()

            world.later(fault.lasts_ms / 1000, end)

    def _region(self, target: str) -> str:
        if target == OWNER:
            assert self.apps.active_writer is not None
            return region_of(self.apps.active_writer)
        return self.scenario.topology.members[0] if target == LEADER else target

    # --- periodic work ----------------------------------------------------------------------------

    def _every(self, every_ms: int, action: Callable[[int], None]) -> None:
        if every_ms:
            for number in range(1, self.scenario.workload.lasts_ms // every_ms + 1):
                self.world.later(number * every_ms / 1000, partial(action, number))

    def _acked_positions(self) -> list[Dlsn]:
        acked = self.history.appends_with_outcome(AppendOutcome.OK)
        return sorted(append.dlsn for append in acked if append.dlsn is not None)

    def _catch_up(self, number: int) -> None:
        hosts = [host for host in self.cluster.app_hosts if host.is_running]
        acked = self._acked_positions()
        if hosts and acked:
            host = hosts[number % len(hosts)]
            end = Dlsn(acked[-1].lssn, acked[-1].entry_id + 1, 0)
            host.spawn(self._check_catch_up(host, number, end), "catch up")

    async def _check_catch_up(self, host: SimHost, number: int, end: Dlsn) -> None:
        expected = {dlsn for dlsn in self._acked_positions() if dlsn < end}
        name = f"catch-up {number} {host.name}"
        try:
            await self.programs.catch_up(host, number, end)
        except RhumblineError as error:
            self.world.trace.note(host.name, f"{name}: {type(error).__name__}: {error}")
            return
        read = next(read for read in self.history.reads if read.reader == name)
        delivered = {record.dlsn for record in read.records}
        first = self.programs.start_at or Dlsn(0, 0, 0)
        self.result.caught_up[name] = all(dlsn in delivered or dlsn < first for dlsn in expected)

    def _truncate(self, number: int) -> None:
        acked = self._acked_positions()
        if self.operator_host.is_running and len(acked) > 10:
            position = acked[len(acked) // 2]
            self.operator_host.spawn(self._truncate_at(position), "truncate")

    async def _truncate_at(self, position: Dlsn) -> None:
        first = self.programs.start_at
        if first is None or position > first:
            # Readers start at the new position from now on, whatever the outcome of the call.
            self.programs.start_at = self.result.truncated_before = position
        async with self.cluster.client(self.operator_host) as client:
            try:
                await client.namespace.truncate(STREAM, position)
            except RhumblineError as error:
                self.world.trace.note("clerk", f"truncate: {type(error).__name__}: {error}")

    # --- after the faults -------------------------------------------------------------------------

    async def _await_resumption(self) -> None:
        """Wait for an acknowledgement of an append called after the last fault, up to the bound."""
        faults_end_ms = self.result.start_ms + self.scenario.faults_end_ms

        def resumed() -> bool:
            acked = self.history.appends_with_outcome(AppendOutcome.OK)
            return any(append.called_ms > faults_end_ms for append in acked[-200:])

        left_ms = faults_end_ms + self.scenario.expect.resume_ms_max - self.world.loop.now * 1000
        try:
            async with asyncio.timeout(max(0.0, left_ms) / 1000 + 1):
                await until(resumed, every_s=0.05)
        except TimeoutError:
            self.world.trace.note("world", "appends did not resume")

    async def _await_all_copies(self) -> None:
        faults_end_ms = self.world.loop.now * 1000
        if not self.scenario.expect.whole_ms_max:
            return
        try:
            async with asyncio.timeout(self.scenario.expect.whole_ms_max / 1000 + 1):
                await until(lambda: not self._missing_copies(), every_s=0.5)
        except TimeoutError:
            for problem in self._missing_copies()[:5]:
                self.world.trace.note("world", f"copies missing: {problem}")
            return
        self.result.whole_ms = self.world.loop.now * 1000 - faults_end_ms

    def _missing_copies(self) -> list[str]:
        """Return the settled fragments that lack a copy or lie in too few regions."""
        regions_min = self.scenario.expect.whole_regions
        storages = {bookie.bookie_id: bookie.storage for bookie in self.cluster.bookies.values()}
        problems = []
        for metadata in self.cluster.ledgers_now():
            for entry_range in settled_ranges(metadata):
                where = f"ledger {metadata.ledger_id} from {entry_range.first}"
                regions = {self.cluster.regions[bookie] for bookie in entry_range.fragment.bookies}
                if len(regions) < regions_min:
                    problems.append(f"{where}: copies only in regions {sorted(regions)}")
                for entry_id in range(entry_range.first, entry_range.last + 1):
                    for index in entry_range.quorum.write_set(entry_id):
                        bookie = entry_range.fragment.bookies[index]
                        storage = storages.get(bookie)
                        if storage is None or not _has(storage, metadata.ledger_id, entry_id):
                            problems.append(f"{where}: bookie {bookie} misses entry {entry_id}")
        return problems

    def finish(self) -> PlayedScenario:
        """Complete the result and return it."""
        result = self.result
        for session, process in self.apps._writers.items():
            result.regions[session] = region_of(process.node)
        result.record = self.record()
        result.digest = self.world.trace.digest()
        result.lines = self.world.trace.lines
        return result


def play_in_sim(
    scenario: Scenario,
    seed: int,
    *,
    on_line: Callable[[str], None] | None = None,
    on_end: Callable[[SeedRun], None] = lambda run: None,
) -> PlayedScenario:
    """Play a scenario in a new simulated world.

    An error that ends the run early is stored in ``PlayedScenario.broke``. ``on_line`` receives
    each line of the trace, frames included. ``on_end`` is called with the run when it has ended.
    """
    started = time.monotonic()
    plan = plan_of(scenario, seed)
    with SimWorld(plan.seed, plan.topology, on_line=on_line) as world:
        run = ScenarioRun(world, scenario, seed)
        if on_line is not None:
            Wiretap(world.network)
        try:
            world.run(run.play(), time_limit_s=TIME_LIMIT_S)
        except LivenessError as error:
            run.result.broke = f"no progress after the faults: {error}"
        except Exception as error:  # an error of production code is a result of the run
            run.result.broke = describe_failure(error)
        result = run.finish()
        on_end(run)
    result.real_s = time.monotonic() - started
    return result


def _has(storage: object, ledger_id: int, entry_id: int) -> bool:
    find = storage.find  # type: ignore[attr-defined]
    try:
        find(ledger_id, entry_id)
    except NotInMemoryError:
        return True  # an index file on disk covers the id; readers prove the copy
    except RhumblineError:
        return False
    return True


async def _idle(host: SimHost) -> None:
    await asyncio.Event().wait()
