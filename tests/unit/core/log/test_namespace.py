"""Tests of streams end to end over ledgers in memory: create, append, read, tail, take over."""

import asyncio
from contextlib import suppress
from typing import Any, cast

import pytest

from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.dlsn import Dlsn, dlsn_in
from rhumbline.core.protocol.errors import InvalidArgumentError, StreamLostError
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.core.runtime.metadata_store import Value
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.lossy_store import LATE, LOST_REPLY, LOST_REQUEST


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
    by one, the policy and the namespace again, and the segment again for its producers; and it
    completed the segment before it published the next one. A new stream was claimed before its
    first segment was published.
    """
    calls: list[str] = []
    await world.namespace.create_stream("s")
    world.store.on_call = calls.append
    first = await world.namespace.open_writer("s")
    assert calls == ["get_all", "txn"]  # read, claim and publish
    await first.append_numbered(b"p" * 16, 0, [b"a"])
    calls.clear()
    second = await world.namespace.open_writer("s")
    assert calls == ["get_all", "put", "get", "txn"]  # read, claim, segment, complete and publish
    await second.close()


async def test_two_writers_that_open_a_new_stream_at_once_follow_each_other(
    world: LogWorld,
) -> None:
    """Both find no segment. One publishes the first, and the other takes the stream over."""
    await world.namespace.create_stream("s")
    both = await asyncio.gather(*(world.namespace.open_writer("s") for _ in range(2)))
    first = await asyncio.gather(*(writer.append(b"a") for writer in both), return_exceptions=True)
    assert sorted(type(result).__name__ for result in first) == ["AppendResult", "StreamLostError"]
    for writer in both:
        with suppress(StreamLostError):
            await writer.close()
    assert [r.payload for r in await world.read_all("s", 1)] == [b"a"]
    segments = (await world.namespace.describe("s")).segments
    assert [segment.lssn for segment in segments] == [1, 2]
    assert sorted(world.ledgers.ledgers) == sorted(segment.ledger_id for segment in segments)


@pytest.mark.parametrize("outcome", [LOST_REPLY, LOST_REQUEST, LATE])
async def test_stream_that_is_claimed_during_its_first_publication_keeps_its_ledgers(
    world: LogWorld, outcome: str
) -> None:
    """If the publication was carried out, its ledger belongs to a segment and must stay."""
    await world.namespace.create_stream("s")
    world.store.outcomes = [outcome]
    is_claimed = False

    async def get(path: str, *, stale_ok: bool = False) -> Value:
        nonlocal is_claimed
        if not is_claimed:
            is_claimed = True
            await StreamStore(world.store, "test").claim("s", "other")
        return await original(path, stale_ok=stale_ok)

    original, world.store.inner.get = world.store.inner.get, get  # type: ignore[method-assign]
    writer = await world.namespace.open_writer("s")
    await world.store.deliver()
    appended = await writer.append(b"a")
    assert appended.dlsn.lssn == (2 if outcome == LOST_REPLY else 1)
    await writer.close()
    assert [r.payload for r in await world.read_all("s", 1)] == [b"a"]
    segments = (await world.namespace.describe("s")).segments
    assert sorted(world.ledgers.ledgers) == [segment.ledger_id for segment in segments]


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
