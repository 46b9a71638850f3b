"""A scenario in the simulator: the production code in virtual time, everything from one seed."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from ...core.log.metadata.stream_store import StreamStore
from ...core.log.read.positioning import EARLIEST
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import RhumblineError
from ...placement.region_aware import RegionAwarePlacement
from ...regions.repair.entry_ranges import settled_spans
from ...regions.repair.repair_service import RepairService
from ..checker.history import AppendOutcome
from ..simulation.cluster import NAMESPACE, STREAM, SimClusterSettings, until
from ..simulation.seed_run import LivenessError, RunPlan, SeedRun, story_of
from ..simulation.workload.workload import Applications, WriterHabits
from ..simulation.world.sim_world import SimHost, SimWorld
from ..simulation.world.sim_world import SimTopology as SimTopology
from . import product_settings, sim_faults
from .cold_store import MemoryColdStore, compare_archive
from .fault_kinds import LEADER, OWNER
from .played_scenario import PlayedScenario
from .report.scenario_outcome import Band
from .scenario import SIM, FaultTable, Scenario, app_name, region_of

TIME_LIMIT_S = 3600.0
_BURST_MAX = 3


def plan_of(scenario: Scenario, seed: int) -> RunPlan:
    """What the simulator needs to know; faults and turns are the lab's own."""
    topology, work = scenario.topology, scenario.workload
    return RunPlan(
        seed=f"{seed} scenario {scenario.name}",
        topology=SimTopology(
            topology.regions,
            tuple((*way.between, way.rtt_ms / 2) for way in topology.ways),  # type: ignore[misc]
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
            is_polite=True,
        ),
        faults=(),
        writers=(),
        readers=tuple(app_name(region) for region in work.tails or topology.regions),
        lasts_ms=scenario.ends_ms,
        appends_max=1 << 60,
    )


class _Programs(Applications):
    """The simulator's applications, which know that the stream's beginning may be truncated."""

    start_at: Dlsn | None = None

    async def read_everything(self, host: SimHost, until: Dlsn) -> None:
        """Reads from the first position that is wanted to ``until``, as a complete run."""
        await self._read_on(host, f"final {host.name}", until, is_complete=True)

    async def catch_up(self, host: SimHost, number: int, until: Dlsn) -> None:
        """Reads from the first position that is wanted to ``until``."""
        await self._read_on(host, f"catch-up {number} {host.name}", until, is_complete=False)

    async def _read_on(self, host: SimHost, name: str, until: Dlsn, *, is_complete: bool) -> None:
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
    """One scenario in one world."""

    def __init__(self, world: SimWorld, scenario: Scenario, seed: int) -> None:
        super().__init__(world, plan_of(scenario, seed))
        self.scenario = scenario
        self.cold = MemoryColdStore()
        self.apps = self.programs = _Programs(self.cluster, self.history, self.plan.habits)
        self.result = PlayedScenario(scenario, SIM, seed, self.history)
        self.result.wan = "the simulator's network: delay, jitter and bandwidth by pair of regions"
        for way in scenario.topology.ways:
            for pair in (way.between, tuple(reversed(way.between))):
                link = world.network.link(*pair)
                link.jitter_ms = way.jitter_ms / 2
                link.bytes_per_s = way.kib_per_s * 1024.0
        regions = scenario.topology.regions
        self.repair_hosts: list[SimHost] = []
        if scenario.workload.repairs:
            self.repair_hosts = [world.host(f"repair-{region}", region) for region in regions]
        self.archiver = world.host("archiver", regions[-1]) if scenario.workload.archives else None
        self.clerk = world.host("clerk", regions[0])
        """Where the operator's errands run: truncation, catch-up readers."""

    async def play(self) -> None:
        """From the founding to the last question."""
        world, scenario, result = self.world, self.scenario, self.result
        await self.cluster.found()
        result.start_ms = world.loop.now * 1000
        result.load_ends_ms = float(scenario.ends_ms)
        for host in self.cluster.app_hosts:
            self.apps.start(host, reads=host.name in self.plan.readers)
        self._start_helpers()
        for turn in scenario.workload.writers:
            world.later(turn.at_ms / 1000, partial(self._tell, app_name(turn.region)))
        for fault in scenario.schedule():
            world.later(fault.at_ms / 1000, partial(self._strike, fault))
        work = scenario.workload
        self._every(work.catch_up_every_ms, self._catch_up)
        self._every(work.truncate_every_ms, self._truncate)
        await asyncio.sleep(scenario.calm_ms / 1000 + 0.001)
        becoming = asyncio.ensure_future(self._become_whole())
        await asyncio.sleep((scenario.ends_ms - scenario.calm_ms) / 1000)
        await self._resume()
        await becoming
        world.heal_everything()
        world.is_healed = True
        result.load_ends_ms = world.loop.now * 1000 - result.start_ms
        await self._epilogue()
        if self.archiver is not None:
            read = next(one for one in self.history.reads if one.is_complete)
            result.archived, result.archive_faults = await compare_archive(
                self.cold, NAMESPACE, read
            )

    # --- helpers of the cluster -----------------------------------------------------------------

    def _start_helpers(self) -> None:
        for host in self.repair_hosts:
            host.start(self._repair)
        if self.archiver is not None:
            self.archiver.start(self._archive)
        self.clerk.start(_idle)

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
        # Only who has pyarrow can archive; all other scenarios do without.
        from ...coldstore.archive.archive_service import ArchiveService, ArchiveServiceConfig
        from ...coldstore.archive.segment_archiver import SegmentArchiver

        async with self.cluster.client(host) as client:
            known = StreamStore(client.store, NAMESPACE)
            archiver = SegmentArchiver(host.runtime(), self.cold, client.ledgers, known)
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

    # --- faults ---------------------------------------------------------------------------------

    def _strike(self, fault: FaultTable) -> None:
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
            assert self.apps.active is not None
            return region_of(self.apps.active)
        return self.scenario.topology.members[0] if target == LEADER else target

    # --- errands --------------------------------------------------------------------------------

    def _every(self, every_ms: int, errand: Callable[[int], None]) -> None:
        if every_ms:
            for number in range(1, self.scenario.workload.lasts_ms // every_ms + 1):
                self.world.later(number * every_ms / 1000, partial(errand, number))

    def _acked_order(self) -> list[Dlsn]:
        acked = self.history.of_outcome(AppendOutcome.OK)
        return sorted(one.dlsn for one in acked if one.dlsn is not None)

    def _catch_up(self, number: int) -> None:
        hosts = [host for host in self.cluster.app_hosts if host.is_running]
        order = self._acked_order()
        if hosts and order:
            host = hosts[number % len(hosts)]
            end = Dlsn(order[-1].lssn, order[-1].entry_id + 1, 0)
            host.spawn(self._caught_up(host, number, end), "catch up")

    async def _caught_up(self, host: SimHost, number: int, end: Dlsn) -> None:
        wanted = {dlsn for dlsn in self._acked_order() if dlsn < end}
        name = f"catch-up {number} {host.name}"
        try:
            await self.programs.catch_up(host, number, end)
        except RhumblineError as error:
            self.world.trace.note(host.name, f"{name}: {type(error).__name__}: {error}")
            return
        read = next(one for one in self.history.reads if one.reader == name)
        found = {one.dlsn for one in read.records}
        first = self.programs.start_at or Dlsn(0, 0, 0)
        self.result.caught_up[name] = all(dlsn in found or dlsn < first for dlsn in wanted)

    def _truncate(self, number: int) -> None:
        order = self._acked_order()
        if self.clerk.is_running and len(order) > 10:
            position = order[len(order) // 2]
            self.clerk.spawn(self._truncate_at(position), "truncate")

    async def _truncate_at(self, position: Dlsn) -> None:
        first = self.programs.start_at
        if first is None or position > first:
            # From here on nobody asks for what is below, whether the call is heard of or not.
            self.programs.start_at = self.result.truncated_before = position
        async with self.cluster.client(self.clerk) as client:
            try:
                await client.namespace.truncate(STREAM, position)
            except RhumblineError as error:
                self.world.trace.note("clerk", f"truncate: {type(error).__name__}: {error}")

    # --- after the faults -----------------------------------------------------------------------

    async def _resume(self) -> None:
        """Whoever is told to write appends again: an append that was called after the last fault
        is acknowledged, or it has taken too long."""
        calm_ms = self.result.start_ms + self.scenario.calm_ms

        def resumed() -> bool:
            acked = self.history.of_outcome(AppendOutcome.OK)
            return any(one.called_ms > calm_ms for one in acked[-200:])

        left_ms = calm_ms + self.scenario.expect.resume_ms_max - self.world.loop.now * 1000
        try:
            async with asyncio.timeout(max(0.0, left_ms) / 1000 + 1):
                await until(resumed, every_s=0.05)
        except TimeoutError:
            self.world.trace.note("world", "appends do not go on")

    async def _become_whole(self) -> None:
        calm_ms = self.world.loop.now * 1000
        if not self.scenario.expect.whole_ms_max:
            return
        try:
            async with asyncio.timeout(self.scenario.expect.whole_ms_max / 1000 + 1):
                await until(lambda: not self._incomplete(), every_s=0.5)
        except TimeoutError:
            for fault in self._incomplete()[:5]:
                self.world.trace.note("world", f"not whole: {fault}")
            return
        self.result.whole_ms = self.world.loop.now * 1000 - calm_ms

    def _incomplete(self) -> list[str]:
        """Settled fragments that miss a copy, or lie in fewer regions than they should."""
        least = self.scenario.expect.whole_regions
        storages = {bookie.bookie_id: bookie.storage for bookie in self.cluster.bookies.values()}
        faults = []
        for metadata in self.cluster.ledgers_now():
            for span in settled_spans(metadata):
                where = f"ledger {metadata.ledger_id} from {span.first}"
                regions = {self.cluster.regions[bookie] for bookie in span.fragment.bookies}
                if len(regions) < least:
                    faults.append(f"{where}: only in {sorted(regions)}")
                for entry_id in range(span.first, span.last + 1):
                    for index in span.quorum.write_set(entry_id):
                        bookie = span.fragment.bookies[index]
                        storage = storages.get(bookie)
                        if storage is None or not _has(storage, metadata.ledger_id, entry_id):
                            faults.append(f"{where}: {bookie} misses {entry_id}")
        return faults

    def finish(self) -> PlayedScenario:
        """What is handed over."""
        result = self.result
        for session, process in self.apps._writers.items():
            result.regions[session] = region_of(process.node)
        result.record = self.record()
        result.digest = self.world.trace.digest()
        result.lines = self.world.trace.lines
        return result


def play_in_sim(
    scenario: Scenario, seed: int, *, on_line: Callable[[str], None] | None = None
) -> PlayedScenario:
    """Plays a scenario in a world of its own. What breaks it is in ``broke``."""
    began = time.monotonic()
    plan = plan_of(scenario, seed)
    with SimWorld(plan.seed, plan.topology, on_line=on_line) as world:
        run = ScenarioRun(world, scenario, seed)
        try:
            world.run(run.play(), time_limit_s=TIME_LIMIT_S)
        except LivenessError as error:
            run.result.broke = f"not alive after the faults: {error}"
        except Exception as error:  # of production code in the run: that is what a run is for
            run.result.broke = story_of(error)
        result = run.finish()
    result.real_s = time.monotonic() - began
    return result


def _has(storage: object, ledger_id: int, entry_id: int) -> bool:
    find = storage.find  # type: ignore[attr-defined]
    try:
        find(ledger_id, entry_id)
    except RhumblineError:
        return False
    return True


async def _idle(host: SimHost) -> None:
    await asyncio.Event().wait()
