"""A segment that was published and has no records yet takes them while the metadata store is away.

In virtual time, with the real bookies: a stream is opened, nothing is written, the store answers
nobody any more, and an hour later the first records come.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rhumbline.chaos.simulation.world.sim_world import SimHost
from rhumbline.core.log.read.positioning import EARLIEST
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.support.simulation.region_run import RegionRun, plan, run_course

AWAY_S = 3_600
RECORDS = [b"%d" % number for number in range(20)]


async def first_records_s(run: RegionRun) -> float:
    """Seconds until all are acknowledged; they are there once, in order, when it is back."""
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
    """Runs ``work`` in a process in the east."""
    host = run.world.host("late-writer", "east")
    host.start(_idle)
    await host.spawn(work(run, host), "write late")
    host.kill("has written")


async def with_load(run: RegionRun) -> None:
    """Something for the checker to judge, before."""
    run.write_in("east")
    await run.acks(50, 15)
    run.apps.active = "nobody"


async def _idle(_: SimHost) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("number", range(3))
def test_first_records_need_the_bookies_only(number: int) -> None:
    async def course(run: RegionRun) -> None:
        await with_load(run)
        assert await first_records_s(run) < 0.5

    run_course(course, plan(number))


def test_a_ledger_that_nobody_introduced_waits_for_the_store() -> None:
    """What streams would do as well: the bookies have no proof, and take nothing."""

    async def work(run: RegionRun, host: SimHost) -> None:
        async with run.cluster.client(host) as client:
            ledger = await client.ledgers.create(Quorum(3, 3, 2, 2))
            run.world.metadata.health.is_down = True
            outcomes: list[object] = []
            ledger.add(b"x", lambda _, error, __: outcomes.append(error))
            await asyncio.sleep(20)
            assert outcomes == []
            run.world.metadata.health.is_down = False

    async def course(run: RegionRun) -> None:
        await with_load(run)
        await in_a_process(run, work)

    run_course(course, plan("unintroduced"))
