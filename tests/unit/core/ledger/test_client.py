"""The normal path: create, add, read, tail, close, recover."""

import asyncio

import pytest

from rhumbline.core.protocol.errors import (
    ClosedError,
    InvalidArgumentError,
    LedgerFencedError,
    UnauthorizedError,
)
from rhumbline.core.protocol.ledger_metadata import LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.unit.core.ledger.world import Outcomes, World, run_in_world, until

pytestmark = pytest.mark.run_by(runner=run_in_world)

Q = Quorum(3, 3, 2, 2)


async def test_entries_are_acknowledged_in_order_and_read_back() -> None:
    world = World()
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        for i in range(20):
            assert writer.add(b"payload %d" % i, done) == i
        await until(lambda: len(done.all) == 20)
        assert done.acked == list(range(20))
        assert all(len(regions) >= 2 for _, _, regions in done.all)
        assert writer.last_add_confirmed == 19
        closed = await writer.close()
        assert (closed.state, closed.last_entry_id) == (LedgerState.CLOSED, 19)
        assert closed.length == sum(len(b"payload %d" % i) for i in range(20))
        reader = await client.open(writer.ledger_id)
        assert reader.is_closed
        entries = await reader.read(3, 19)
        assert [e.payload for e in entries] == [b"payload %d" % i for i in range(3, 20)]
        with pytest.raises(InvalidArgumentError):
            await reader.read(0, 20)
        with pytest.raises(ClosedError):
            writer.add(b"late", done)
        await reader.aclose()


async def test_striped_ledger_is_read_back() -> None:
    world = World("aabbc")
    async with world.client() as client:
        writer = await client.create(Quorum(5, 3, 2, 2))
        done = Outcomes()
        for i in range(30):
            writer.add(b"%d" % i, done)
        await until(lambda: len(done.all) == 30)
        await writer.close()
        reader = await client.open(writer.ledger_id)
        got: list[bytes] = []
        while len(got) < 30:
            got += [bytes(e.payload) for e in await reader.read(len(got), 29)]
        assert got == [b"%d" % i for i in range(30)]
        await reader.aclose()


async def test_recovery_closes_after_the_last_acknowledged_entry_and_fences_the_writer() -> None:
    world = World()
    async with world.client() as client, world.client("b") as other:
        writer = await client.create(Q, password=b"secret")
        done = Outcomes()
        for i in range(10):
            writer.add(b"%d" % i, done)
        await until(lambda: len(done.all) == 10)
        with pytest.raises(UnauthorizedError):
            await other.recover(writer.ledger_id)
        closed = await other.recover(writer.ledger_id, b"secret")
        assert (closed.last_entry_id, closed.length) == (9, 10)
        assert closed == world.closed(writer.ledger_id)
        writer.add(b"too late", done)
        await until(lambda: writer.is_failed)
        assert isinstance(writer.failure, LedgerFencedError)
        assert done.acked == list(range(10))
        assert done.failed == [10]
        again = await other.recover(writer.ledger_id, b"secret")
        assert again == closed


async def test_tail_is_woken_by_a_new_lac_and_by_the_close() -> None:
    world = World()
    loop = asyncio.get_running_loop()
    async with world.client() as client, world.client("b") as other:
        writer = await client.create(Q)
        done = Outcomes()
        reader = await other.open(writer.ledger_id)
        writer.add(b"0", done)
        await until(lambda: bool(done.acked))
        waiting = loop.create_task(reader.wait(-1, 5_000))
        await asyncio.sleep(0.2)
        started = loop.time()
        await writer.publish_lac()
        assert [e.payload for e in await waiting] == [b"0"]
        assert loop.time() - started < 0.02
        waiting = loop.create_task(reader.wait(0, 60_000))
        await asyncio.sleep(3)
        started = loop.time()
        for i in range(1, 4):
            writer.add(b"%d" % i, done)
            await until(lambda i=i: len(done.acked) == i + 1)  # type: ignore[misc]
        assert next(e.entry_id for e in await waiting) == 1
        assert loop.time() - started < 0.03
        waiting = loop.create_task(reader.wait(3, 60_000))
        await asyncio.sleep(1)
        assert await reader.wait(3, 100) == []
        await writer.close()
        started = loop.time()
        assert await waiting == []
        assert reader.is_closed
        assert loop.time() - started < 0.03
        assert reader.last_add_confirmed == 3
        await reader.aclose()
