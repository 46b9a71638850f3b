"""The counters that all writers of a process share."""

from rhumbline.core.log.log_context import LogContext
from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.tests.support.fakes.log_world import LogWorld, in_world


@in_world
async def test_records_entries_and_failures(world: LogWorld) -> None:
    shared = LogContext()
    namespace = Namespace(world.runtime, world.store, world.ledgers.client(), "test", shared=shared)
    await namespace.create_stream("s", StreamPolicy())
    async with await namespace.open_writer("s") as writer:
        tickets = [writer.append(b"x" * 100) for _ in range(10)]
        for ticket in tickets:
            await ticket
        world.clock.now_ms += 7
        await writer.append_many([b"y"] * 5)
        world.ledgers.fail_writers()
        await writer.append(b"z")
    found = shared.statistics()
    assert (found["records"], found["segments_failed"]) == (16, 1)
    assert 3 <= found["entries"] <= 4
    assert found["bytes"] >= 1_006
    assert found["acks"]["count"] == found["entries"]


@in_world
async def test_what_failed_is_not_counted(world: LogWorld) -> None:
    shared = LogContext()
    namespace = Namespace(world.runtime, world.store, world.ledgers.client(), "test", shared=shared)
    await namespace.create_stream("s", StreamPolicy())
    writer = await namespace.open_writer("s")
    world.ledgers.are_acks_held = True
    ticket = writer.append(b"x")
    await writer.abort()
    try:
        await ticket
    except RhumblineError:
        assert shared.statistics()["records"] == 0
    else:
        raise AssertionError("an aborted append was acknowledged")
