"""A published segment without records accepts its first ones while the metadata store is
unavailable.

In virtual time and with real bookies, a stream is opened, the store becomes unavailable, and an
hour later the first records are appended.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rhumbline.chaos.simulation.workload.workload import NO_WRITER
from rhumbline.chaos.simulation.world.sim_world import SimHost
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.simulation.region_run import RegionRun, plan, run_script

AWAY_S = 3_600
RECORDS = [b"%d" % number for number in range(20)]


async def first_records_s(run: RegionRun) -> float:
    """Return the seconds until all are acknowledged; later they are read once and in order."""
    health = run.world.metadata.health
    found: list[float] = []

    async def work(run: RegionRun, host: SimHost) -> None:
        loop = asyncio.get_running_loop()
        async with run.cluster.client(host) as client:
            await client.namespace.create_stream("quiet")
            writer = await client.namespace.open_writer("quiet")
            health.is_down = True
            try:
                await asyncio.sleep(AWAY_S)
                began = loop.time()
                async with asyncio.timeout(20):
                    for each in [writer.append(record) for record in RECORDS]:
                        await each
                found.append(loop.time() - began)
            finally:
                health.is_down = False
            await asyncio.sleep(5)
            await writer.close()
            async with await client.namespace.open_reader("quiet", EARLIEST) as reader:
                batch = await reader.next_batch()
                assert batch is not None
                assert list(batch.payloads()) == RECORDS

    await in_a_process(run, work)
    return found[0]


async def in_a_process(
    run: RegionRun, work: Callable[[RegionRun, SimHost], Coroutine[Any, Any, None]]
) -> None:
    """Run ``work`` in a process in the east."""
    host = run.world.host("late-writer", "east")
    host.start(_idle)
    await host.spawn(work(run, host), "write late")
    host.kill("has written")


async def with_load(run: RegionRun) -> None:
    """Write some records first, so that the checker has something to evaluate."""
    run.write_in("east")
    await run.acks(50, 15)
    run.apps.active_writer = NO_WRITER


async def _idle(_: SimHost) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "number", [0, *(pytest.param(number, marks=pytest.mark.long) for number in (1, 2))]
)
def test_first_records_of_a_segment_need_only_the_bookies(number: int) -> None:
    async def script(run: RegionRun) -> None:
        await with_load(run)
        assert await first_records_s(run) < 0.5

    run_script(script, plan(number))


def test_an_unpublished_ledger_waits_for_the_metadata_store() -> None:
    """Without a published segment the bookies have no proof of membership and refuse the adds."""

    async def work(run: RegionRun, host: SimHost) -> None:
        async with run.cluster.client(host) as client:
            ledger = await client.ledgers.create(Quorum(3, 3, 2, 2))
            run.world.metadata.health.is_down = True
            outcomes: list[object] = []
            ledger.add(b"x", lambda _, error, __: outcomes.append(error))
            await asyncio.sleep(20)
            assert outcomes == []
            run.world.metadata.health.is_down = False

    async def script(run: RegionRun) -> None:
        await with_load(run)
        await in_a_process(run, work)

    run_script(script, plan("unintroduced"))
