"""Namespaces that are pinned to some regions, beside global ones, never leave these regions."""

import asyncio

import pytest

from rhumbline.core.log.namespace import Namespace, create_namespace
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.errors import NotEnoughBookiesError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.durability.ledger_layout import stream_of
from rhumbline.regions.states import PlacementState
from rhumbline.tests.support.simulation.region_run import FIVE_REGIONS, RegionRun, plan, run_script

HOME = ("a", "b")
"""The regions of the pinned namespace. The writer of every script starts in a."""


def regions_of(run: RegionRun, stream: str = "sim/stream") -> set[str]:
    return {
        run.cluster.regions[bookie]
        for ledger in run.ledgers()
        if stream_of(ledger) == stream
        for bookie in ledger.bookies()
    }


@pytest.mark.parametrize("writer", ["a", "b", "e"])
def test_copies_stay_in_the_allowed_regions_despite_failures(writer: str) -> None:
    async def script(run: RegionRun) -> None:
        run.write_in(writer)
        await run.acks(60, 15)
        victim = next(h for h in run.cluster.bookie_hosts if h.region == "a")
        victim.kill()
        await run.acks(60, 30)
        await asyncio.sleep(8)  # repair declares it lost, and may use only a and b
        await run.whole(regions_min=2, within_s=60)
        assert regions_of(run) == {"a", "b"}

    run_script(
        script,
        plan(f"pinned {writer}", topology=FIVE_REGIONS, each=3, regions=HOME),
    )


def test_a_pinned_namespace_waits_instead_of_leaving_its_regions() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(60, 15)
        await run.set_region("b", PlacementState.DRAINED)
        await asyncio.sleep(15)
        assert regions_of(run) == {"a", "b"}, "there is no other legal placement, so copies stay"
        refused: list[str] = []

        async def open_another(host: object) -> None:
            async with run.cluster.client(run.operator) as client:
                await client.namespace.create_stream("another")
                try:
                    await client.namespace.open_writer("another")
                except NotEnoughBookiesError as error:
                    refused.append(str(error))

        await run.as_operator(open_another)
        assert "needs bookies in 2 regions, there are: a: 3" in refused[0]
        await run.set_region("b", None)
        await run.acks(30, 60)

    run_script(script, plan("waits", topology=FIVE_REGIONS, each=3, regions=HOME))


def test_a_changed_pin_holds_from_the_next_segment_and_global_namespaces_coexist() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(30, 15)
        wide = StreamPolicy(quorum=Quorum(5, 5, 3, 3), flush=FlushPolicy(period_ms=0))

        async def write_both(host: object) -> None:
            async with run.cluster.client(run.operator) as client:
                runtime = run.operator.runtime()
                await create_namespace(client.store, runtime, "wide", wide)
                namespace = Namespace(runtime, client.store, client.ledgers, "wide")
                await namespace.create_stream("s")
                async with await namespace.open_writer("s") as writer:
                    await writer.append(b"everywhere")
                await namespace.set_policy(StreamPolicy(quorum=Quorum(3, 3, 2, 1), regions=("d",)))
                await namespace.create_stream("t")
                async with await namespace.open_writer("t") as writer:
                    await writer.append(b"in one region")

        await run.as_operator(write_both)
        assert regions_of(run) == {"a", "b"}
        assert regions_of(run, "wide/s") == set("abcde")
        assert regions_of(run, "wide/t") == {"d"}

    run_script(script, plan("beside", topology=FIVE_REGIONS, each=3, regions=HOME))
