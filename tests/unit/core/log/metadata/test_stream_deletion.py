"""A deletion that is late, repeated or overtaken leaves the next stream of its name alone."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from itertools import count

import pytest

from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.namespace import Namespace, create_namespace, delete_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.read.positioning import EARLIEST
from rhumbline.core.log.topics.topics import create_topic, delete_topic, open_topic
from rhumbline.core.protocol.dlsn import FIRST_DLSN, Dlsn
from rhumbline.core.protocol.errors import (
    IndeterminateError,
    NoSuchNamespaceError,
    NoSuchStreamError,
    NoSuchSubscriptionError,
    StreamExistsError,
    StreamLostError,
)
from rhumbline.core.protocol.segments import Segment
from rhumbline.tests.support.fakes.log_world import LogWorld, in_world
from rhumbline.tests.support.fakes.lossy_store import (
    LATE,
    LOST_REPLY,
    LOST_REQUEST,
    OK,
    UnsureStore,
)

NEW = StreamPolicy(roll_bytes=12_345)


async def fill(
    world: LogWorld, policy: StreamPolicy | None = None, payloads: Sequence[bytes] = (b"0", b"1")
) -> None:
    """A stream of three segments with these records in each, and a subscription."""
    await world.namespace.create_stream("s", policy)
    for _ in range(3):
        writer = await world.namespace.open_writer("s")
        for payload in payloads:
            await writer.append(payload)
        await writer.close()
    await world.namespace.subscriptions.create("s", "mine", Dlsn(2, 0, 0))


async def assert_new_one_is_whole(world: LogWorld) -> None:
    known = await world.namespace.describe("s")
    assert (known.policy, known.start, len(known.segments)) == (NEW, FIRST_DLSN, 3)
    assert [one.payload for one in await world.read_all("s", 6)] == [b"0", b"1"] * 3
    assert (await world.namespace.subscriptions.read("s", "mine")).position == Dlsn(2, 0, 0)
    async with asyncio.timeout(10):
        writer = await world.namespace.open_writer("s")
        await writer.append(b"more")
        await writer.close()


def administrator(world: LogWorld) -> tuple[Namespace, UnsureStore]:
    """Another process, with calls of its own to the same store."""
    store = UnsureStore(world.store.inner)
    return Namespace(world.runtime, store, world.ledgers.client(), "test"), store


async def stopped_at(
    work: Coroutine[None, None, object], store: UnsureStore, call: int
) -> asyncio.Task[object]:
    """Does ``work``, which stands still at its ``call``-th step at the store, for a long time."""
    steps, stopped = count(1), asyncio.Event()

    def delay_s() -> float:
        if next(steps) == call:
            stopped.set()
            return 1000.0
        return 0.0

    store.delay_s = delay_s
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(stopped.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        raise BeyondError
    return task


class BeyondError(Exception):
    """There are fewer calls than that."""


CallTest = Callable[[LogWorld, int], Awaitable[None]]


def at_each_call(first: int, at_least: int) -> Callable[[CallTest], Callable[[], None]]:
    """Repeats a test, in fresh worlds, for call ``first`` and each that follows."""

    def decorate(test: CallTest) -> Callable[[], None]:
        def run() -> None:
            for call in count(first):
                try:
                    in_world(lambda world: test(world, call))()  # noqa: B023 - it runs at once
                except BeyondError:
                    break
                except BaseException as error:
                    error.add_note(f"at call {call}")
                    raise
            assert call >= at_least, "it was hardly tried"

        run.__name__ = test.__name__
        return run

    return decorate


async def overtaken(
    world: LogWorld,
    work: Coroutine[None, None, object],
    store: UnsureStore,
    call: int,
    payloads: Sequence[bytes] = (b"0", b"1"),
) -> BaseException | None:
    """``work`` stands still; meanwhile the stream is deleted and made again. Its error."""
    task = await stopped_at(work, store, call)
    with suppress(NoSuchStreamError):  # it may have been the last step
        await world.namespace.delete_stream("s")
    await fill(world, NEW, payloads)
    await asyncio.wait([task])
    return task.exception()


@at_each_call(2, at_least=12)  # at the first it has asked nothing: it may well mean the new one
async def test_who_was_overtaken_by_another_deletion_deletes_nothing_more(
    world: LogWorld, call: int
) -> None:
    await fill(world)
    slow, store = administrator(world)
    error = await overtaken(world, slow.delete_stream("s"), store, call)
    assert error is None or isinstance(error, NoSuchStreamError)
    await assert_new_one_is_whole(world)


@at_each_call(1, at_least=8)
async def test_requests_of_a_deletion_that_come_late_find_nothing_to_do(
    world: LogWorld, call: int
) -> None:
    await fill(world)
    slow, store = administrator(world)
    store.fates = [OK] * (call - 1) + [LATE]
    await slow.delete_stream("s")
    if not store.late:
        raise BeyondError
    await fill(world, NEW)
    await store.deliver()
    await assert_new_one_is_whole(world)


@pytest.mark.parametrize("fate", [LOST_REPLY, LOST_REQUEST])
def test_a_deletion_is_finished_whatever_is_lost(fate: str) -> None:
    @at_each_call(1, at_least=8)
    async def body(world: LogWorld, call: int) -> None:
        await fill(world)
        world.store.fates = [OK] * (call - 1) + [fate]
        await world.namespace.delete_stream("s")
        if world.store.fates:
            raise BeyondError
        assert await world.namespace.streams() == []
        await fill(world, NEW)
        await assert_new_one_is_whole(world)

    body()


@at_each_call(1, at_least=12)
async def test_a_deletion_that_stopped_anywhere_is_finished_by_a_repeat(
    world: LogWorld, call: int
) -> None:
    await fill(world)
    ledgers = [one.ledger_id for one in await world.segments("s")]
    dying, store = administrator(world)
    task = await stopped_at(dying.delete_stream("s"), store, call)
    task.cancel()
    await asyncio.wait([task])
    names = await world.namespace.streams()
    if names and (await StreamStore(world.store, "test").record("s"))[0].is_deleting:
        with pytest.raises(StreamExistsError, match="being deleted"):
            await world.namespace.create_stream("s")
        with pytest.raises(NoSuchStreamError, match="being deleted"):
            await world.namespace.open_writer("s")
        with pytest.raises(NoSuchStreamError, match="being deleted"):
            await world.namespace.set_stream_policy("s", NEW)
        with pytest.raises(NoSuchStreamError, match="being deleted"):
            await world.namespace.subscriptions.create("s", "another", FIRST_DLSN)
    if names:
        await world.namespace.delete_stream("s")
    assert await world.namespace.streams() == []
    assert not set(ledgers) & world.ledgers.ledgers.keys()
    await fill(world, NEW)
    await assert_new_one_is_whole(world)


@in_world
async def test_a_repeat_that_names_the_stream_does_not_delete_the_next(world: LogWorld) -> None:
    await fill(world)
    old = (await world.namespace.describe("s")).identity
    await world.namespace.delete_stream("s", identity=old)
    await fill(world, NEW)
    with pytest.raises(NoSuchStreamError):
        await world.namespace.delete_stream("s", identity=old)
    await assert_new_one_is_whole(world)


@in_world
async def test_who_writes_a_stream_loses_it_by_its_deletion(world: LogWorld) -> None:
    await fill(world)
    streams = StreamStore(world.store, "test")
    claim = await streams.claim("s", "late")
    await world.namespace.delete_stream("s")
    await fill(world, NEW)
    with pytest.raises(StreamLostError):
        await streams.publish(claim, Segment(claim.head.last_lssn + 1, 99, claim.head.epoch, 1))
    await assert_new_one_is_whole(world)


@at_each_call(3, at_least=9)  # at the second it has yet to open the stream
async def test_a_reader_is_told_that_its_stream_is_gone_and_gets_nothing_of_the_next(
    world: LogWorld, call: int
) -> None:
    await fill(world)
    slow, store = administrator(world)
    got: list[bytes] = []

    async def read() -> None:
        async with await slow.open_reader("s", EARLIEST) as reader:
            async for record in reader:
                got.append(record.payload)
                if len(got) == 6:
                    break

    error = await overtaken(world, read(), store, call, [b"of the next", b"of the next"])
    assert isinstance(error, NoSuchStreamError) or (error is None and len(got) == 6)
    assert got == ([b"0", b"1"] * 3)[: len(got)]


# --- what else changes streams by their names -------------------------------------------------


CHANGES: dict[str, Callable[[Namespace], Coroutine[None, None, object]]] = {
    "truncate": lambda namespace: namespace.truncate("s", Dlsn(3, 0, 0)),
    "policy": lambda namespace: namespace.set_stream_policy("s", None),
    "maintain": lambda namespace: namespace.maintain("s"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_that_were_overtaken_do_not_hit_the_next_stream(name: str) -> None:
    @at_each_call(2, at_least=3)
    async def body(world: LogWorld, call: int) -> None:
        await fill(world, StreamPolicy(purge_grace_ms=0))
        if name == "maintain":
            await world.namespace.truncate("s", Dlsn(3, 0, 0))
            await world.namespace.maintain("s")  # marks what the next pass purges
        slow, store = administrator(world)
        error = await overtaken(world, CHANGES[name](slow), store, call)
        assert error is None or isinstance(error, NoSuchStreamError)
        await assert_new_one_is_whole(world)

    body()


@pytest.mark.parametrize("name", CHANGES)
def test_changes_that_come_late_do_not_hit_the_next_stream(name: str) -> None:
    @at_each_call(1, at_least=2)
    async def body(world: LogWorld, call: int) -> None:
        await fill(world, StreamPolicy(purge_grace_ms=0))
        if name == "maintain":
            await world.namespace.truncate("s", Dlsn(3, 0, 0))
            await world.namespace.maintain("s")
        slow, store = administrator(world)
        store.fates = [OK] * (call - 1) + [LATE]
        await CHANGES[name](slow)
        if not store.late:
            raise BeyondError
        await world.namespace.delete_stream("s")
        await fill(world, NEW)
        await store.deliver()
        await assert_new_one_is_whole(world)

    body()


@in_world
async def test_a_creation_that_comes_late_does_not_bring_a_deleted_stream_back(
    world: LogWorld,
) -> None:
    slow, store = administrator(world)
    store.fates = [LATE]
    await slow.create_stream("s")
    await world.namespace.delete_stream("s")
    await store.deliver()
    assert await world.namespace.streams() == []


@in_world
async def test_a_creation_that_comes_late_makes_no_half_a_namespace(world: LogWorld) -> None:
    slow, store = administrator(world)
    store.fates = [LATE] * 2
    await slow.create_stream("s")
    await create_topic(store, slow, "t", 1)
    await delete_topic(world.store, world.namespace, "t")
    await world.namespace.delete_stream("s")
    await delete_namespace(world.store, "test")
    await store.deliver()
    with pytest.raises(NoSuchNamespaceError):
        await world.namespace.create_stream("s")
    await create_namespace(world.store, world.runtime, "test", NEW)
    assert await world.namespace.policy() == NEW


@in_world
async def test_a_subscription_that_comes_late_is_made_neither_beside_nor_in_the_next_stream(
    world: LogWorld,
) -> None:
    await world.namespace.create_stream("s")
    slow, store = administrator(world)
    store.fates = [LATE]
    await slow.subscriptions.create("s", "another", FIRST_DLSN)
    requests = list(store.late)
    await world.namespace.delete_stream("s")
    await store.deliver()
    with pytest.raises(NoSuchStreamError):
        await slow.subscriptions.create("s", "mine", FIRST_DLSN)
    assert await world.namespace.streams() == []
    await fill(world, NEW)
    store.late = requests
    await store.deliver()
    assert await world.namespace.subscriptions.names("s") == ["mine"]


@in_world
async def test_a_subscription_is_deleted_once(world: LogWorld) -> None:
    await fill(world, NEW)
    subscriptions = world.namespace.subscriptions
    world.store.fates = [LATE]
    await subscriptions.delete("s", "mine")
    with pytest.raises(NoSuchSubscriptionError):
        await subscriptions.delete("s", "mine")
    await subscriptions.create("s", "mine", Dlsn(2, 0, 0))
    await world.store.deliver()
    world.store.fates = [LOST_REPLY]
    await subscriptions.create("s", "another", FIRST_DLSN)
    world.store.fates = [LOST_REPLY]
    await subscriptions.delete("s", "another")
    await assert_new_one_is_whole(world)


# --- namespaces and topics --------------------------------------------------------------------


@pytest.mark.parametrize("fate", [LATE, LOST_REPLY, LOST_REQUEST])
def test_the_deletion_of_a_namespace_hits_no_later_one(fate: str) -> None:
    @in_world
    async def body(world: LogWorld) -> None:
        await world.namespace.create_stream("s")
        await world.namespace.delete_stream("s")
        slow, store = administrator(world)
        store.fates = [fate]
        await delete_namespace(store, "test")
        with pytest.raises(NoSuchNamespaceError):
            await delete_namespace(store, "test")
        await create_namespace(world.store, world.runtime, "test", NEW)
        await store.deliver()
        assert await slow.policy() == NEW

    body()


@at_each_call(2, at_least=4)
async def test_a_deletion_that_a_new_namespace_overtook_leaves_it_alone(
    world: LogWorld, call: int
) -> None:
    _, store = administrator(world)
    task = await stopped_at(delete_namespace(store, "test"), store, call)
    with suppress(NoSuchNamespaceError):  # it may have been the last step
        await delete_namespace(world.store, "test")
    await create_namespace(world.store, world.runtime, "test", NEW)
    await task
    assert await world.namespace.policy() == NEW


@in_world
async def test_a_policy_that_comes_late_is_not_that_of_the_next_namespace(world: LogWorld) -> None:
    slow, store = administrator(world)
    store.fates = [LATE]
    await slow.set_policy(StreamPolicy(roll_bytes=7))
    assert (await world.namespace.policy()).roll_bytes == 7
    await delete_namespace(world.store, "test")
    await create_namespace(world.store, world.runtime, "test", NEW)
    await store.deliver()
    assert await world.namespace.policy() == NEW


@in_world
async def test_the_deletion_of_a_topic_hits_no_later_one(world: LogWorld) -> None:
    topic = await create_topic(world.store, world.namespace, "t", 1)
    slow, store = administrator(world)
    await world.namespace.delete_stream("t.0")
    store.fates = [LATE]
    with pytest.raises(IndeterminateError):
        await delete_topic(store, slow, "t")
    await delete_topic(world.store, world.namespace, "t")
    await create_topic(world.store, world.namespace, "t", 1)
    await store.deliver()
    assert await open_topic(world.store, world.namespace, "t") == topic
