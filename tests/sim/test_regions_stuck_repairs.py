"""A ledger that cannot be mended says why, and keeps no other one from being mended."""

import asyncio

from rhumbline.chaos.simulation.world.sim_world import SimHost, SimWorld
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.ledger_metadata import LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.ledger_scan import all_ledgers
from rhumbline.regions.repair.entry_ranges import settled_spans
from rhumbline.regions.states import State
from rhumbline.tests.support.simulation.region_run import REPAIR, RegionRun, plan

SPREAD_S = 60.0


async def with_ledgers(run: RegionRun) -> None:
    """A dozen closed ledgers, and repair that sees no fault."""
    await run.cluster.found()
    for host in run.cluster.app_hosts:
        run.apps.start(host, reads=False)
    run.write_in("east")
    await run.acks(300, 60)
    await asyncio.sleep(25)
    run.apps.active = "nobody"
    await asyncio.sleep(3)
    for host in run.repair_hosts:
        host.start(run._repair)
    await run.whole(regions_min=1, within_s=SPREAD_S)


def test_entries_without_any_copy_are_hopeless_and_the_other_ledgers_are_mended() -> None:
    async def course(run: RegionRun) -> None:
        await with_ledgers(run)
        [first, *others] = [one for one in run.ledgers() if one.state is LedgerState.CLOSED]
        doomed = set(first.bookies())
        touched = [
            one for one in others if set(one.bookies()) & doomed and set(one.bookies()) - doomed
        ]
        assert touched, "some ledgers lose only a part of their copies"
        for host in run.cluster.bookie_hosts:
            if run.cluster.ids[host.name] in doomed:
                run.cluster.damage(host)
                host.wipe()
                host.start_again()  # with an empty disk, under another id
        await asyncio.sleep(REPAIR.lost_after_ms / 1000 + 30)
        hopeless = [task for task in run.tasks() if '"is_hopeless":true' in task]
        assert any(f'"ledger_id":{first.ledger_id},' in task for task in hopeless)
        assert all("has no good copy" in task for task in hopeless)
        for ledger in run.ledgers():
            if ledger.ledger_id in {one.ledger_id for one in touched}:
                assert not doomed & set(ledger.bookies()), f"ledger {ledger.ledger_id} was mended"
        [still] = [one for one in run.ledgers() if one.ledger_id == first.ledger_id]
        assert still == first, "nothing was shortened, nothing claimed"

    play(course, Quorum(3, 3, 2, 1))


def test_a_dead_bookie_is_decommissioned_and_its_copies_are_made_again() -> None:
    async def course(run: RegionRun) -> None:
        await with_ledgers(run)
        spans = [span for ledger in run.ledgers() for span in settled_spans(ledger)]
        dead = spans[0].fragment.bookies[0]
        for host in run.cluster.bookie_hosts:
            if run.cluster.ids[host.name] == dead:
                host.power_off()
                host.main = None
                del run.cluster.bookies[host.name]
        start = run.world.loop.now
        await run.command(lambda states: states.with_bookie(dead, State.OFFLINE))
        await run.whole(regions_min=3, within_s=SPREAD_S)
        assert run.world.loop.now - start < REPAIR.lost_after_ms / 1000, "at once by command"
        assert all(dead not in ledger.bookies() for ledger in run.ledgers())

    play(course, Quorum(3, 3, 2, 2))


def test_damaged_metadata_of_one_ledger_stops_no_audit() -> None:
    async def course(run: RegionRun) -> None:
        await with_ledgers(run)
        victim, *others = [one for one in run.ledgers() if one.state is LedgerState.CLOSED]
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
            if run.cluster.ids[host.name] == dead:
                host.power_off()
                host.main = None
        await run.command(lambda states: states.with_bookie(dead, State.OFFLINE))
        await asyncio.sleep(SPREAD_S)
        await run.as_operator(look)
        assert naming == [], "the others are mended"
        said = [s.statistics() for s in run.repairs.values() if s.is_auditor]
        assert [one["unreadable_ledgers"] for one in said] == [1]
        assert f"ledger {victim.ledger_id}" in said[0]["last_error"]

    play(course, Quorum(3, 3, 2, 2))


def play(course: object, quorum: Quorum) -> None:
    setting = plan(f"stuck {quorum}", quorum=quorum, each=3)
    with SimWorld(setting.seed, setting.topology) as world:
        run = RegionRun(world, setting)
        assert callable(course)
        world.run(course(run))
