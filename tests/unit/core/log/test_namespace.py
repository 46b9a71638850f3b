"""Tests of streams end to end over ledgers in memory: create, append, read, tail, take over."""

import asyncio
from typing import Any, cast

import pytest

from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.dlsn import Dlsn, dlsn_in
from rhumbline.core.protocol.errors import InvalidArgumentError, StreamLostError
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld


async def test_appended_records_are_read_in_order(world: LogWorld) -> None:
    writer = await world.writer("s")
    tickets = [writer.append(b"%d" % n) for n in range(1000)]
    results = [await ticket for ticket in tickets]
    assert [r.dlsn for r in results] == sorted({r.dlsn for r in results})
    await writer.close()
    records = await world.read_all("s", 1000)
    assert [r.payload for r in records] == [b"%d" % n for n in range(1000)]
    assert [r.dlsn for r in records] == [r.dlsn for r in results]
    assert [r.sequence_id for r in records] == list(range(1000))


async def test_tail_reader_sees_a_single_record_soon(world: LogWorld) -> None:
    writer = await world.writer("s")
    reader = await world.namespace.open_reader("s", EARLIEST)
    for n in range(5):
        await writer.append(b"%d" % n)
        assert (await asyncio.wait_for(anext(reader), 1)).payload == b"%d" % n
    await reader.aclose()
    await writer.close()


async def test_second_writer_continues_and_the_first_one_fails(world: LogWorld) -> None:
    first = await world.writer("s")
    await first.append(b"a")
    second = await world.writer("s")
    with pytest.raises(StreamLostError):  # it was sent, but it is not in the closed ledger
        await first.append(b"x")
    with pytest.raises(StreamLostError):
        await first.append(b"x")
    await second.append(b"b")
    await second.close()
    assert [r.payload for r in await world.read_all("s", 2)] == [b"a", b"b"]


async def test_opening_makes_few_metadata_calls_one_after_the_other(world: LogWorld) -> None:
    """A writer waits for each call, and the metadata store may be in another region.

    A takeover made nine, or ten with producers: it read the policy, the namespace and the head one
    by one, the policy and the namespace again, and the segment again for its producers.
    """
    calls: list[str] = []
    await world.namespace.create_stream("s")
    world.store.on_call = calls.append
    first = await world.namespace.open_writer("s")
    assert calls == ["get_all", "put", "txn"]  # read, claim, publish
    await first.append_numbered(b"p" * 16, 0, [b"a"])
    calls.clear()
    second = await world.namespace.open_writer("s")
    assert calls == [
        "get_all",
        "put",
        "get",
        "txn",
        "txn",
    ]  # read, claim, segment, complete, publish
    await second.close()


async def test_wrong_arguments_are_refused_before_anything_is_stored(world: LogWorld) -> None:
    """They gave AttributeErrors from inside, or were stored, and the stream was unreadable."""
    namespace, subscriptions = world.namespace, world.namespace.subscriptions
    writer = await world.writer("s")
    await writer.append(b"a")
    reader = await namespace.open_reader("s", EARLIEST)
    mine = await subscriptions.create("s", "mine", Dlsn(1, 0, 0))
    wrong: Any
    for wrong in ("1:0:0", (1, 0, 0), 5, Dlsn(-1, 0, 0), Dlsn(1, -1, 0), dlsn_in("", 1.5, 0, 0)):  # type: ignore[arg-type]
        for call in (
            lambda at: namespace.open_reader("s", at),
            lambda at: namespace.truncate("s", at),
            lambda at: namespace.untruncate("s", at),
            lambda at: reader.next_batch(until=at),
            lambda at: subscriptions.create("s", "other", at),
            lambda at: subscriptions.commit(mine, "s", at),
            lambda at: subscriptions.reset("s", "mine", at),
        ):
            with pytest.raises(InvalidArgumentError, match=r"position|start"):
                await call(wrong)
    for wrong in ({"a": 1}, "policy", 5):
        for work in (
            namespace.create_stream("new", wrong),
            namespace.set_stream_policy("s", wrong),
            namespace.set_policy(wrong),
        ):
            with pytest.raises(InvalidArgumentError, match="is not a StreamPolicy"):
                await work
    with pytest.raises(InvalidArgumentError):
        await namespace.set_policy(cast(StreamPolicy, None))
    for wrong in (None, 5, (one for one in [b"a"])):
        with pytest.raises(InvalidArgumentError, match="payloads is a list"):
            writer.append_many(wrong)
        with pytest.raises(InvalidArgumentError, match="payloads is a list"):
            writer.append_numbered(b"p" * 16, 0, wrong)
    for wrong in ("0", None, -1, 1.0):
        with pytest.raises(InvalidArgumentError, match="sequences count from 0"):
            writer.append_numbered(b"p" * 16, wrong, [b"a"])
    with pytest.raises(InvalidArgumentError, match="txids is a list"):
        writer.append_many([b"a"], cast(list[int], 5))
    assert await namespace.streams() == ["s"]
    assert (await subscriptions.read("s", "mine")).position == (1, 0, 0)
    await reader.aclose()
    await writer.close()
    assert [record.payload for record in await world.read_all("s", 1)] == [b"a"]
