"""A ledger that cannot be repaired is reported with the reason and does not block other repairs."""

import asyncio

from rhumbline.chaos.simulation.workload.workload import NO_WRITER
from rhumbline.chaos.simulation.world.sim_world import SimHost, SimWorld
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.ledger_metadata import LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.ledger_scan import all_ledgers
from rhumbline.regions.repair.entry_ranges import settled_ranges
from rhumbline.regions.states import PlacementState
from rhumbline.tests.support.simulation.region_run import REPAIR, RegionRun, plan

SPREAD_S = 60.0


async def with_ledgers(run: RegionRun) -> None:
    """Write a dozen closed ledgers and let repair verify them."""
    await run.cluster.bootstrap()
    for host in run.cluster.app_hosts:
        run.apps.start(host, reads=False)
    run.write_in("east")
    await run.acks(300, 60)
    await asyncio.sleep(25)
    run.apps.active_writer = NO_WRITER
    await asyncio.sleep(3)
    for host in run.repair_hosts:
        host.start(run._repair)
    await run.whole(regions_min=1, within_s=SPREAD_S)


def test_entries_without_any_copy_are_reported_and_other_ledgers_are_repaired() -> None:
    async def script(run: RegionRun) -> None:
        await with_ledgers(run)
        [first, *others] = [each for each in run.ledgers() if each.state is LedgerState.CLOSED]
        doomed = set(first.bookies())
        touched = [
            one for one in others if set(one.bookies()) & doomed and set(one.bookies()) - doomed
        ]
        assert touched, "some ledgers lose only a part of their copies"
        for host in run.cluster.bookie_hosts:
            if run.cluster.bookie_ids[host.name] in doomed:
                run.cluster.mark_damaged(host)
                host.wipe()
                host.start_again()  # with an empty disk and a new id
        await asyncio.sleep(REPAIR.lost_after_ms / 1000 + 30)
        hopeless = [task for task in run.tasks() if '"is_hopeless":true' in task]
        assert any(f'"ledger_id":{first.ledger_id},' in task for task in hopeless)
        assert all("has no good copy" in task for task in hopeless)
        records = [record.__dict__ for record in run.world.log.records]
        stuck = [r["ledger"] for r in records if r["event"] == "repair stuck"]
        assert stuck.count(first.ledger_id) <= len(run.repair_hosts), "one line for each process"
        assert {f'"ledger_id":{ledger},' for ledger in stuck} >= {
            task[task.index('"ledger_id"') :].partition(",")[0] + "," for task in hopeless
        }
        for ledger in run.ledgers():
            if ledger.ledger_id in {one.ledger_id for one in touched}:
                assert not doomed & set(ledger.bookies()), f"ledger {ledger.ledger_id} was repaired"
        [still] = [each for each in run.ledgers() if each.ledger_id == first.ledger_id]
        assert still == first, "its metadata is unchanged"

    play(script, Quorum(3, 3, 2, 1))


def test_a_dead_bookie_is_decommissioned_and_its_copies_are_restored() -> None:
    async def script(run: RegionRun) -> None:
        await with_ledgers(run)
        spans = [span for ledger in run.ledgers() for span in settled_ranges(ledger)]
        dead = spans[0].fragment.bookies[0]
        for host in run.cluster.bookie_hosts:
            if run.cluster.bookie_ids[host.name] == dead:
                host.power_off()
                host.main = None
                del run.cluster.bookies[host.name]
        start = run.world.loop.now
        await run.command(lambda states: states.with_bookie(dead, PlacementState.OFFLINE))
        await run.whole(regions_min=3, within_s=SPREAD_S)
        assert run.world.loop.now - start < REPAIR.lost_after_ms / 1000, (
            "earlier than by the time-out"
        )
        assert all(dead not in ledger.bookies() for ledger in run.ledgers())

    play(script, Quorum(3, 3, 2, 2))


def test_damaged_metadata_of_one_ledger_stops_no_audit() -> None:
    async def script(run: RegionRun) -> None:
        await with_ledgers(run)
        victim, *others = [each for each in run.ledgers() if each.state is LedgerState.CLOSED]
        dead = others[0].bookies()[0]
        naming: list[int] = []

        async def damage(host: SimHost) -> None:
            store = host.metadata()
            await store.put(Paths().ledger(victim.ledger_id), b"damaged")
            await store.close()

        async def look(host: SimHost) -> None:
            store = host.metadata()
            async for metadata, _ in all_ledgers(LedgerStore(store), lambda _: None):
                if dead in metadata.bookies():
                    naming.append(metadata.ledger_id)
            await store.close()

        await run.as_operator(damage)
        for host in run.cluster.bookie_hosts:
            if run.cluster.bookie_ids[host.name] == dead:
                host.power_off()
                host.main = None
        await run.command(lambda states: states.with_bookie(dead, PlacementState.OFFLINE))
        await asyncio.sleep(SPREAD_S)
        await run.as_operator(look)
        assert naming == [], "the other ledgers are repaired"
        said = [s.statistics() for s in run.repairs.values() if s.is_auditor]
        assert [one["unreadable_ledgers"] for one in said] == [1]
        assert f"ledger {victim.ledger_id}" in said[0]["last_error"]

    play(script, Quorum(3, 3, 2, 2))


def play(script: object, quorum: Quorum) -> None:
    setting = plan(f"stuck {quorum}", quorum=quorum, each=3)
    with SimWorld(setting.seed, setting.topology) as world:
        run = RegionRun(world, setting)
        assert callable(script)
        world.run(script(run))
