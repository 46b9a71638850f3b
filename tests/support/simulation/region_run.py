"""Runs about regions: load, repair in each region, and a script of commands and faults.

They end like every simulated run: a new writer appends, everything is read in every region, every
bookie is asked for every entry, and the checker evaluates the invariants. The seeds and the names
of the hosts are part of the identity of each run.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from rhumbline.chaos.simulation.cluster import SimClusterSettings, until
from rhumbline.chaos.simulation.seed_run import RunPlan, SeedRun
from rhumbline.chaos.simulation.workload.workload import NO_WRITER, WriterHabits
from rhumbline.chaos.simulation.world.sim_world import THREE_REGIONS, SimHost, SimTopology, SimWorld
from rhumbline.core.bookie.config import KIB
from rhumbline.core.bookie.index.tiered_index import NotInMemoryError
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.placement.region_aware import RegionAwarePlacement
from rhumbline.regions.repair.config import RepairConfig
from rhumbline.regions.repair.entry_ranges import settled_ranges
from rhumbline.regions.repair.repair_service import RepairService
from rhumbline.regions.states import PlacementState, PlacementStates
from rhumbline.tests.support.simulation.scripted_run import play_and_check

FIVE_REGIONS = SimTopology(
    regions=("a", "b", "c", "d", "e"),
    delays_ms=tuple(
        (x, y, 10.0 + 5 * abs(ord(x) - ord(y)))
        for i, x in enumerate("abcde")
        for y in "abcde"[i + 1 :]
    ),
)

REPAIR = RepairConfig(
    lost_after_ms=5_000,
    audit_interval_ms=2_000,
    recovery_grace_ms=5_000,
    ownerless_grace_ms=5_000,
    retry_ms_min=500,
    retry_ms_max=4_000,
    session_ttl_ms=2_000,
)

Script = Callable[["RegionRun"], Awaitable[None]]


def plan(
    seed: int | str,
    *,
    topology: SimTopology = THREE_REGIONS,
    quorum: Quorum | None = None,
    each: int = 2,
    roll_ms: int = 3_000,
    pause_ms: int = 100,
    regions: tuple[str, ...] = (),
) -> RunPlan:
    """Return a plan without faults; the script injects them."""
    return RunPlan(
        seed=f"{seed} regions",
        topology=topology,
        bookies_by_region=(each,) * len(topology.regions),
        settings=SimClusterSettings(
            policy=StreamPolicy(
                quorum=quorum or Quorum(3, 3, 2, 2),
                flush=FlushPolicy(period_ms=0),
                roll_ms=roll_ms,
                regions=regions,
            ),
            ledger=LedgerConfig(request_timeout_ms=1000, underreplicated_ms_max=2000),
            log_file_bytes=256 * KIB,
        ),
        habits=WriterHabits(pause_ms=pause_ms, stops_when_replaced=True),
        faults=(),
        writers=(),
        readers=(f"app-{topology.regions[-1]}",),
        lasts_ms=0,
        appends_max=1 << 60,
    )


class RegionRun(SeedRun):
    """One run, whose methods a script calls."""

    def __init__(
        self,
        world: SimWorld,
        plan: RunPlan,
        *,
        repairs: bool = True,
        repair_config: RepairConfig = REPAIR,
    ) -> None:
        super().__init__(world, plan)
        self.repair_config = repair_config
        self.repairs: dict[str, RepairService] = {}
        self.repair_hosts: list[SimHost] = []
        if repairs:
            self.repair_hosts = [world.host(f"repair-{r}", r) for r in plan.topology.regions]
        self.repairers += self.repair_hosts
        self.operator = world.host("operator", plan.topology.regions[0])

    async def play_script(self, script: Script) -> None:
        """Start the cluster, play the script, and verify the end state."""
        await self.cluster.bootstrap()
        for host in self.cluster.app_hosts:
            self.apps.start(host, reads=host.name in self.plan.readers)
        for host in self.repair_hosts:
            host.start(self._repair)
        self.apps.appends_max = self.plan.appends_max
        self.write_in(self.plan.topology.regions[0])
        await script(self)
        self.apps.active_writer = NO_WRITER
        self.world.heal_everything()
        await self._verify_end_state()

    async def _repair(self, host: SimHost) -> None:
        async with self.cluster.client(host) as client:
            service = RepairService(
                host.runtime(),
                client.store,
                client.ledgers,
                client.directory,
                RegionAwarePlacement(),
                self.repair_config,
                on_takeover=self.cluster.add_takeover,
            )
            self.repairs[host.name] = service
            service.start()
            await asyncio.Event().wait()

    # --- commands and faults --------------------------------------------------------------------

    def write_in(self, region: str) -> None:
        """Make the application of this region the active writer."""
        self._set_active_writer(f"app-{region}")

    async def acks(self, count: int, within_s: float) -> float:
        """Wait until ``count`` more appends are acknowledged; return the seconds it took."""
        goal, start = self.apps.acked + count, self.world.loop.now
        async with asyncio.timeout(within_s):
            await until(lambda: self.apps.acked >= goal)
        return self.world.loop.now - start

    def destroy(self, region: str) -> None:
        """Destroy a region with all its disks; only its network returns at the end."""
        self.world.cut_region(region)
        for host in self.cluster.bookie_hosts:
            if host.region == region:
                self.cluster.mark_damaged(host)
                host.wipe()
                host.main = None
                self.cluster.bookies.pop(host.name, None)

    async def command(self, change: Callable[[PlacementStates], PlacementStates]) -> None:
        """Change the states of regions and bookies as an operator."""

        async def work(host: SimHost) -> None:
            async with self.cluster.client(host) as client:
                await client.directory.states.change(change)

        await self.as_operator(work)

    async def set_region(self, region: str, state: PlacementState | None) -> None:
        """Set a region's state, like ``region drain``; None restores the normal state."""
        await self.command(lambda states: states.with_region(Region(region), state))

    async def as_operator(self, work: Callable[[SimHost], Any]) -> None:
        """Run ``work`` in a new process on the operator's host."""
        self.operator.start(_idle)
        try:
            async with asyncio.timeout(60):
                await self.operator.spawn(work(self.operator), "operator")
        finally:
            self.operator.kill("is done")

    # --- inspection -----------------------------------------------------------------------------

    def ledgers(self) -> list[LedgerMetadata]:
        """Return the stored metadata of every existing ledger."""
        last = [versions[-1].metadata for versions in self._ledger_versions().values()]
        return [metadata for metadata in last if metadata is not None]

    def incomplete(self, *, regions_min: int) -> list[str]:
        """Describe settled fragments that miss a copy or are in too few regions."""
        faults = []
        storages = {b.bookie_id: b.storage for b in self.cluster.bookies.values()}
        for metadata in self.ledgers():
            for span in settled_ranges(metadata):
                where = f"ledger {metadata.ledger_id} from {span.first}"
                regions = {self.cluster.regions[b] for b in span.fragment.bookies}
                if len(regions) < regions_min:
                    faults.append(f"{where}: only in {sorted(regions)}")
                for entry_id in range(span.first, span.last + 1):
                    for index in span.quorum.write_set(entry_id):
                        bookie = span.fragment.bookies[index]
                        if not has_copy(storages.get(bookie), metadata.ledger_id, entry_id):
                            faults.append(f"{where}: {bookie} misses {entry_id}")
                            break
        return faults

    async def whole(self, *, regions_min: int, within_s: float) -> float:
        """Wait until every settled fragment is complete and spread; return the seconds it took."""
        start = self.world.loop.now
        try:
            async with asyncio.timeout(within_s):
                await until(lambda: not self.incomplete(regions_min=regions_min), every_s=0.5)
        except TimeoutError:
            faults = self.incomplete(regions_min=regions_min)
            raise AssertionError(
                f"not whole after {within_s} s: {faults[:5]} of {len(faults)}; "
                f"{[s.statistics() for s in self.repairs.values()]}; {self.tasks()}"
            ) from None
        return self.world.loop.now - start

    def tasks(self) -> list[str]:
        """Return the repair tasks that are stored now."""
        now: dict[str, bytes | None] = {}
        for commit in self.world.metadata.tree.history:
            if "/repair/todo/" in commit.path:
                now[commit.path] = commit.data
        return [data.decode() for data in now.values() if data]

    def asked_for(self) -> list[str]:
        """Return every repair task that was ever stored."""
        return [
            commit.data.decode()
            for commit in self.world.metadata.tree.history
            if "/repair/todo/" in commit.path and commit.data
        ]

    def members_since(self, at_ms: float) -> list[tuple[int, BookieId]]:
        """Return (ledger, bookie) of the members that were added to metadata after a moment."""
        found = []
        for ledger_id, versions in self._ledger_versions().items():
            known: set[BookieId] = set()
            for version in versions:
                if version.metadata is None:
                    continue
                now = set(version.metadata.bookies())
                if version.at_ms > at_ms:
                    found += [(ledger_id, bookie) for bookie in sorted(now - known)]
                known |= now
        return found


def has_copy(storage: Any, ledger_id: int, entry_id: int) -> bool:  # noqa: ANN401 - inspects internals
    """Return whether a bookie's storage has an entry."""
    if storage is None:
        return False
    try:
        storage.find(ledger_id, entry_id)
    except NotInMemoryError:
        return True  # an index file on disk covers the id; readers prove the copy
    except RhumblineError:
        return False
    return True


async def _idle(host: SimHost) -> None:
    await asyncio.Event().wait()


def run_script(
    script: Script,
    plan: RunPlan,
    *,
    repairs: bool = True,
    repair_config: RepairConfig = REPAIR,
    time_limit_s: float = 7200.0,
) -> RegionRun:
    """Play a script, assert that no invariant is violated, and return the run for inspection."""
    with SimWorld(plan.seed, plan.topology) as world:
        run = RegionRun(world, plan, repairs=repairs, repair_config=repair_config)
        play_and_check(world, run, script, time_limit_s=time_limit_s)
        assert run.apps.acked > 0
        return run
