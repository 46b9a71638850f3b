"""Copies on single bookies: listing them, and storing them as their writer encoded them."""

import asyncio
from typing import Any

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.errors import (
    BookieUnavailableError,
    ReadOnlyError,
    UnknownStateError,
)
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.wire import availability, v3
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire.entry import Entry, master_key
from rhumbline.tests.unit.core.ledger.world import (
    FakeBookie,
    Outcomes,
    Request,
    World,
    run_in_world,
    until,
)

pytestmark = pytest.mark.run_by(runner=run_in_world)

Q = Quorum(2, 2, 2, 1)


async def written(world: World, client: Any, count: int) -> tuple[LedgerWriter, list[Entry]]:  # noqa: ANN401
    """Write a ledger with a password to two bookies; return its writer and entries."""
    writer = await client.create(Q, password=b"secret")
    done = Outcomes()
    for i in range(count):
        writer.add(b"%03d" % i, done)
    await until(lambda: len(done.acked) == count)
    await writer.close()
    reader = await client.open(writer.ledger_id, b"secret")
    return writer, await reader.read(0, count - 1)


def target_of(world: World, writer: LedgerWriter) -> FakeBookie:
    members = writer.metadata.last_fragment.bookies
    return next(bookie for bookie in world.bookies if bookie.bookie not in members)


def recovery_adds(bookie: FakeBookie) -> list[pb.AddRequest]:
    return [
        request.add_request
        for request in bookie.requests
        if isinstance(request, pb.Request) and request.HasField("add_request")
    ]


async def test_stored_copies_equal_those_of_the_writer() -> None:
    world = World("abc")
    async with world.client() as client:
        writer, entries = await written(world, client, 5)
        source = world.by_id[writer.metadata.last_fragment.bookies[0]]
        target = target_of(world, writer)
        expected = {key: data for key, data in source.entries.items() if key[1] in (1, 2, 4)}
        size = await client.copies.put(
            target.bookie, writer.metadata, [entries[1], entries[2], entries[4]]
        )
        assert target.entries == expected
        assert size == sum(map(len, expected.values()))
        adds = recovery_adds(target)
        assert [add.entry_id for add in adds] == [1, 2, 4]
        assert {add.flag for add in adds} == {pb.AddRequest.RECOVERY_ADD}
        assert {add.master_key for add in adds} == {master_key(b"secret")}
        assert target.fenced == {}


async def test_no_copies_need_no_request() -> None:
    world = World("abc")
    async with world.client() as client:
        writer, _ = await written(world, client, 1)
        target = target_of(world, writer)
        target.is_down = True
        assert await client.copies.put(target.bookie, writer.metadata, []) == 0


async def test_call_returns_when_every_copy_is_stored() -> None:
    world = World("abc")
    async with world.client() as client:
        writer, entries = await written(world, client, 3)
        target = target_of(world, writer)
        target.is_hung = True
        putting = asyncio.get_running_loop().create_task(
            client.copies.put(target.bookie, writer.metadata, entries)
        )
        await asyncio.sleep(0.1)
        assert len(recovery_adds(target)) == 3
        pipe = target.pipes[0]
        for request in target.requests[:2]:
            target.serve(pipe, request, None)
        await asyncio.sleep(0.1)
        assert not putting.done()
        target.serve(pipe, target.requests[2], None)
        await putting
        assert len(target.entries) == 3


async def test_error_of_the_first_copy_that_failed_is_raised_after_all_have_completed() -> None:
    world = World("abc")
    async with world.client() as client:
        writer, entries = await written(world, client, 4)
        target = target_of(world, writer)
        statuses = {1: v3.Status.READ_ONLY, 2: v3.Status.IO}

        def refuse(request: Request) -> object:
            assert isinstance(request, pb.Request)
            return statuses.get(request.add_request.entry_id)

        target.script = refuse
        with pytest.raises(ReadOnlyError):
            await client.copies.put(target.bookie, writer.metadata, entries)
        assert target.ids(writer.ledger_id) == [0, 3]


async def test_bookie_that_cannot_be_reached_fails_every_copy() -> None:
    world = World("abc", LedgerConfig(backoff_ms_min=1_000))
    async with world.client() as client:
        writer, entries = await written(world, client, 2)
        target = target_of(world, writer)
        target.is_down = True
        for _ in range(2):  # the second time, the link backs off
            with pytest.raises(BookieUnavailableError):
                await client.copies.put(target.bookie, writer.metadata, entries)
            with pytest.raises(BookieUnavailableError):
                await client.copies.list_entries(target.bookie, writer.ledger_id)


async def test_entries_of_a_bookie_are_listed() -> None:
    world = World("abc")
    async with world.client() as client:
        target = world.bookies[1]
        statuses = [v3.Status.OK, v3.Status.NO_LEDGER, v3.Status.IO]
        asked: list[int] = []

        def serve(pipe: Any, request: pb.Request, _: object) -> None:  # noqa: ANN401
            asked.append(request.get_list_of_entries_request.ledger_id)
            status = statuses.pop(0)
            body = availability.encode([(3, 2), (9, 1)]) if status is v3.Status.OK else None
            pipe.respond(v3.frame(v3.list_entries_response(request, status, body)))

        target.serve_message = serve  # type: ignore[method-assign,assignment]
        found = await client.copies.list_entries(target.bookie, 7)
        assert [entry for entry in range(20) if entry in found] == [3, 4, 9]
        assert len(await client.copies.list_entries(target.bookie, 8)) == 0
        with pytest.raises(UnknownStateError):
            await client.copies.list_entries(target.bookie, 9)
        assert asked == [7, 8, 9]
