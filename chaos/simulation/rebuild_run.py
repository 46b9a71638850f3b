"""A run in which the metadata store is lost and rebuilt, in the middle of the workload.

The steps are those of the guide: stop everything, take the inventories, rebuild, start again. What
was acknowledged and read before must agree with the rebuilt metadata. A ledger that was deleted may
come back, since bookies keep its copies for a while and do not know that it was deleted.
"""

import asyncio
from dataclasses import replace
from math import inf
from random import Random

from ...backends.memory import MemoryStore
from ...core.bookie.config import BookieConfig
from ...core.bookie.identity import read_identity
from ...core.bookie.storage import Storage
from ...core.protocol.bookie_id import BookieId
from ...core.wire import ledger_metadata as ledger_codec
from ...rebuild.backup import Backup, ledger_ids_in
from ...rebuild.collect_backup import collect_backup
from ...rebuild.fill_store import fill_store
from ...rebuild.inventory import BookieInventory, HeldLedger
from ...rebuild.rebuilt_tree import RebuiltTree, rebuild_tree
from ...rebuild.take_inventory import take_inventory
from ..checker.run_record import LedgerVersion, Rules, RunRecord, StreamVersions
from .cluster import STORAGE, STREAM, until
from .plans.metadata.rebuild import QUORUM_OF_LOWERED_R
from .seed_run import RunPlan, SeedRun
from .workload.r_changing import RChangingApplications
from .world.metadata import ledger_id_of
from .world.sim_world import SimHost, SimWorld

_CONTINUES_S = 4.0
_STEP_S_MAX = 60.0


class RebuildRun(SeedRun):
    """Executes a plan; then loses and rebuilds the metadata before it verifies the end state."""

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        super().__init__(world, plan)
        self.apps = RChangingApplications(self.cluster, self.history, plan.habits)
        self._random = Random(f"{plan.seed} loss")
        self._backup: Backup | None = None
        self._inventories: list[BookieInventory] = []
        self._lost: tuple[BookieId, ...] = ()
        self.rebuilt: RebuiltTree | None = None
        self.ledgers_before: frozenset[int] = frozenset()
        """Ids of all ledgers that existed before the loss."""
        self._filled_ms = inf

    def _ledger_versions(self) -> dict[int, list[LedgerVersion]]:
        """Return the versions; if a ledger came back with the rebuilt store, only those since."""
        versions = super()._ledger_versions()
        for ledger_id, found in versions.items():
            last = next((v for v in reversed(found) if v.at_ms < self._filled_ms), None)
            if last is not None and last.metadata is None:
                versions[ledger_id] = [v for v in found if v.at_ms >= self._filled_ms] or found
        return versions

    def _stream_versions(self, stream: str = STREAM) -> StreamVersions:
        """Return the versions; of a segment that left no trace, only those since (rule BAK-5)."""
        found = super()._stream_versions(stream)
        held = {ledger.ledger_id for inventory in self._inventories for ledger in inventory.ledgers}
        for lssn, versions in found.segments.items():
            later = [version for version in versions if version.at_ms >= self._filled_ms]
            before = next(
                (v.segment for v in reversed(versions) if v.at_ms < self._filled_ms), None
            )
            if later and before is not None and before.ledger_id not in held:
                found.segments[lssn] = later
        return found

    def record(self) -> RunRecord:
        """Return the record of the run, with the entries that the rebuild kept."""
        return replace(
            super().record(),
            kept_by_rebuild=self._kept_entries(),
            lost_before_rebuild=frozenset(self._lost),
            copied_fragments=self._copied_fragments(),
            rebuilt_at_ms=self._filled_ms,
        )

    def _copied_fragments(self) -> frozenset[tuple[int, int]]:
        copies = [
            (held.ledger_id, held.metadata)
            for inventory in self._inventories
            for held in inventory.ledgers
            if held.metadata
        ]
        nodes = {} if self._backup is None else self._backup.nodes
        copies += [(id_, nodes[path]) for id_, path in ledger_ids_in(nodes).items() if nodes[path]]
        return frozenset(
            (ledger_id, fragment.first_entry_id)
            for ledger_id, data in copies
            for fragment in ledger_codec.decode(ledger_id, data).fragments
        )

    def _kept_entries(self) -> dict[tuple[int, int], frozenset[str]]:
        holders: dict[int, dict[BookieId, HeldLedger]] = {}
        for inventory in self._inventories:
            for held in inventory.ledgers:
                holders.setdefault(held.ledger_id, {})[inventory.bookie_id] = held
        kept: dict[tuple[int, int], frozenset[str]] = {}
        for ledger_id in () if self.rebuilt is None else self.rebuilt.decided_ledgers:
            by_bookie = holders[ledger_id]
            lac = max(held.lac for held in by_bookie.values())
            last = max(held.last_entry_id for held in by_bookie.values())
            for entry_id in range(lac + 1, last + 1):
                kept[ledger_id, entry_id] = frozenset(self._lost) | {
                    bookie
                    for bookie, held in by_bookie.items()
                    if held.is_in_limbo or held.holds(entry_id)
                }
        for key, replaced in self._replaced_members().items():
            kept[key] = kept.get(key, frozenset()) | replaced
        return kept

    def _replaced_members(self) -> dict[tuple[int, int], frozenset[str]]:
        """Return, by ledger and entry, the lost bookies that the rebuild replaced (BAK-4)."""
        lost: frozenset[str] = frozenset(self._lost)
        found: dict[tuple[int, int], frozenset[str]] = {}
        for ledger_id, versions in super()._ledger_versions().items():
            before = [v.metadata for v in versions if v.at_ms < self._filled_ms]
            after = [v.metadata for v in versions if v.at_ms >= self._filled_ms]
            if not (before and after) or before[-1] is None or after[0] is None:
                continue
            old, new = Rules(before[-1]), Rules(after[0])
            for entry_id in range(after[0].last_entry_id + 1):
                gone = lost & ({*old.write_set(entry_id)} - {*new.write_set(entry_id)})
                if gone:
                    found[ledger_id, entry_id] = gone
        return found

    async def _verify_end_state(self) -> None:
        self.apps.appends_max += 400
        await self._work_until_the_loss()
        await self._lower_r()
        await self._stop_everything()
        self._lost = self._lose_a_disk()
        async with asyncio.timeout(_STEP_S_MAX):
            await self._take_inventories(self._lost)
            await self._rebuild(self._lost)
            await self._start_everything()
        await asyncio.sleep(_CONTINUES_S)
        await super()._verify_end_state()

    async def _work_until_the_loss(self) -> None:
        random, world = self._random, self.world
        regions = world.topology.regions
        self.apps.active_writer = random.choice(self.cluster.app_hosts).name
        await asyncio.sleep(random.uniform(0.5, 3.0))
        if random.random() < 0.5:
            host = self.cluster.app_hosts[0]
            self._backup = await collect_backup(MemoryStore(world.metadata.tree), host.clock)
            world.trace.note("operator", f"takes a backup of {len(self._backup.nodes)} nodes")
        await asyncio.sleep(random.uniform(0.5, 5.0))
        if random.random() < 0.5:
            first, second = random.sample(regions, 2)
            world.network.cut(first, second)
            world.network.cut(second, first)
            await asyncio.sleep(random.uniform(0.05, 2.0))

    async def _lower_r(self) -> None:
        """In some runs, kill the bookies of the other regions, and lower R to 1.

        Two bookies may then acknowledge entries that have no copy of the metadata with this R.
        """
        random, writer = Random(f"{self.plan.seed} lowered R"), self.apps.active_writer
        if self.plan.settings.policy.quorum != QUORUM_OF_LOWERED_R or writer is None:
            return
        self.apps.appends_max += 400
        await asyncio.sleep(1.0)
        for host in self.cluster.bookie_hosts:
            if host.region != self.world.hosts[writer].region and host.is_running:
                host.kill("fails")
        await asyncio.sleep(random.uniform(0.0, 0.5))
        for change in list(self.cluster.r_changers):
            change(1)
        await asyncio.sleep(random.uniform(0.05, 3.0))

    async def _stop_everything(self) -> None:
        """Stop all processes within a few milliseconds, in any order."""
        random = self._random
        hosts = [*self.cluster.bookie_hosts, *self.cluster.app_hosts, *self.repairers]
        random.shuffle(hosts)
        for host in hosts:
            await asyncio.sleep(random.uniform(0.0, 0.02))
            if not host.is_running:
                continue
            if random.random() < 0.5:
                host.power_off()
            else:
                host.kill("is stopped")
        self.world.network.heal_all()

    def _lose_a_disk(self) -> tuple[BookieId, ...]:
        """Empty the disk of one bookie in some runs, and return its id."""
        if self._random.random() < 0.7:
            return ()
        host = self._random.choice(self.cluster.bookie_hosts)
        self.cluster.mark_damaged(host)
        bookie = BookieId(self.cluster.bookie_ids[host.name])
        host.wipe()
        return (bookie,)

    async def _take_inventories(self, lost: tuple[BookieId, ...]) -> None:
        for host in self.cluster.bookie_hosts:
            if self.cluster.bookie_ids[host.name] not in lost:
                host.start(_idle)
                self._inventories.append(
                    await host.spawn(self._take_inventory(host), "take the inventory")
                )
                host.kill("has its inventory")

    async def _take_inventory(self, host: SimHost) -> BookieInventory:
        disk, runtime = host.disk(STORAGE), host.runtime()
        identity = await read_identity(disk)
        config = BookieConfig(
            boot_id=f"{host.name}-{host.boots}",
            log_file_bytes=self.plan.settings.log_file_bytes,
        )
        storage = Storage(runtime, disk, config, identity.bookie_id)
        await storage.open(must_exist=identity.was_opened)
        inventory = await take_inventory(storage, identity, runtime.clock.wall_ms())
        await storage.aclose()
        return BookieInventory.decode(inventory.encode(), host.name)

    async def _rebuild(self, lost: tuple[BookieId, ...]) -> None:
        site, random = self.world.metadata, self._random
        ids = (ledger_id_of(commit.path) for commit in site.tree.history if commit.data)
        self.ledgers_before = frozenset(id_ for id_ in ids if id_ is not None)

        def new_token() -> str:
            return f"{random.getrandbits(64):016x}"

        store = MemoryStore(site.tree)
        self.rebuilt = rebuild_tree(
            self._inventories,
            self._backup,
            lost=lost,
            now_ms=self.cluster.app_hosts[0].clock.wall_ms(),
            new_token=new_token,
        )
        self._filled_ms = self.world.network.loop.now * 1000
        await fill_store(
            store,
            self.rebuilt.nodes,
            self.rebuilt.sequences,
            may_replace=True,
            new_token=new_token,
        )
        for finding in self.rebuilt.findings:
            self.world.trace.note("operator", f"{finding.kind}: {finding.detail}")

    async def _start_everything(self) -> None:
        self.cluster.bookies.clear()
        for host in self.cluster.bookie_hosts:
            host.start(self.cluster.run_bookie)
        await until(lambda: len(self.cluster.bookies) == len(self.cluster.bookie_hosts))
        for host in self.cluster.app_hosts:
            self.apps.start(host, reads=host.name in self.plan.readers)


async def _idle(host: SimHost) -> None:
    await asyncio.Event().wait()
