"""Tests that late, repeated and run_overtaken changes never affect the next stream of the name.

The rule is STR-23.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.namespace import Namespace, create_namespace, delete_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.topics.topics import create_topic, delete_topic, open_topic
from rhumbline.core.metadata.idempotent_writes import ATTEMPTS
from rhumbline.core.protocol.dlsn import FIRST_DLSN, Dlsn
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    DeletionPendingError,
    IndeterminateError,
    NoSuchNamespaceError,
    NoSuchStreamError,
    NoSuchSubscriptionError,
    StreamExistsError,
    StreamLostError,
)
from rhumbline.core.protocol.segments import Segment
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.lossy_store import (
    LATE,
    LOST_REPLY,
    LOST_REQUEST,
    OK,
    LossyStore,
)

NEW = StreamPolicy(roll_bytes=12_345)


async def create_filled_stream(
    world: LogWorld, policy: StreamPolicy | None = None, payloads: Sequence[bytes] = (b"0", b"1")
) -> None:
    """Create a stream of three segments with these records in each, and a subscription."""
    await world.namespace.create_stream("s", policy)
    for _ in range(3):
        writer = await world.namespace.open_writer("s")
        for payload in payloads:
            await writer.append(payload)
        await writer.close()
    await world.namespace.subscriptions.create("s", "mine", Dlsn(2, 0, 0))


async def assert_new_stream_is_intact(world: LogWorld) -> None:
    known = await world.namespace.describe("s")
    assert (known.policy, known.start, len(known.segments)) == (NEW, FIRST_DLSN, 3)
    assert [segment.payload for segment in await world.read_all("s", 6)] == [b"0", b"1"] * 3
    assert (await world.namespace.subscriptions.read("s", "mine")).position == Dlsn(2, 0, 0)
    async with asyncio.timeout(10):
        writer = await world.namespace.open_writer("s")
        await writer.append(b"more")
        await writer.close()


def administrator(world: LogWorld) -> tuple[Namespace, LossyStore]:
    """Return the namespace and the store connection of another process."""
    store = LossyStore(world.store.inner)
    return Namespace(world.runtime, store, world.ledgers.client(), "test"), store


async def start_and_stop_at(
    work: Coroutine[None, None, object], store: LossyStore, call: int
) -> asyncio.Task[object]:
    """Start ``work`` and return once it is delayed at its ``call``-th call of the store.

    Raises BeyondError if it makes fewer calls.
    """
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
    """The work makes fewer calls than the test assumes."""


CallTest = Callable[[LogWorld, int], Coroutine[Any, Any, None]]


def at_each_call(first: int, at_least: int) -> Callable[[CallTest], Callable[[], None]]:
    """Repeat a test in fresh worlds, for call ``first`` and each later call."""

    def decorate(test: CallTest) -> Callable[[], None]:
        def run() -> None:
            for call in count(first):
                world = LogWorld.create()
                try:
                    world.run(test(world, call))
                except BeyondError:
                    break
                except BaseException as error:
                    error.add_note(f"at call {call}")
                    raise
            assert call >= at_least, "too few calls were tested"

        run.__name__ = test.__name__
        return run

    return decorate


async def run_overtaken(
    world: LogWorld,
    work: Coroutine[None, None, object],
    store: LossyStore,
    call: int,
    payloads: Sequence[bytes] = (b"0", b"1"),
) -> BaseException | None:
    """Delete and recreate the stream while ``work`` is delayed. Return the error of ``work``."""
    task = await start_and_stop_at(work, store, call)
    with suppress(NoSuchStreamError):  # it may have been the last step
        await world.namespace.delete_stream("s")
    await create_filled_stream(world, NEW, payloads)
    await asyncio.wait([task])
    return task.exception()


@at_each_call(2, at_least=12)  # before its first response it may refer to the new stream
async def test_deletion_overtaken_by_another_deletes_nothing_more(
    world: LogWorld, call: int
) -> None:
    await create_filled_stream(world)
    slow, store = administrator(world)
    error = await run_overtaken(world, slow.delete_stream("s"), store, call)
    assert error is None or isinstance(error, NoSuchStreamError)
    await assert_new_stream_is_intact(world)


@at_each_call(1, at_least=8)
async def test_late_deletion_requests_have_no_effect(world: LogWorld, call: int) -> None:
    await create_filled_stream(world)
    slow, store = administrator(world)
    store.outcomes = [OK] * (call - 1) + [LATE]
    await slow.delete_stream("s")
    if not store.late:
        raise BeyondError
    await create_filled_stream(world, NEW)
    await store.deliver()
    await assert_new_stream_is_intact(world)


@pytest.mark.parametrize("outcome", [LOST_REPLY, LOST_REQUEST])
def test_deletion_completes_despite_lost_requests_and_replies(outcome: str) -> None:
    @at_each_call(1, at_least=8)
    async def body(world: LogWorld, call: int) -> None:
        await create_filled_stream(world)
        world.store.outcomes = [OK] * (call - 1) + [outcome]
        await world.namespace.delete_stream("s")
        if world.store.outcomes:
            raise BeyondError
        assert await world.namespace.streams() == []
        await create_filled_stream(world, NEW)
        await assert_new_stream_is_intact(world)

    body()


@at_each_call(1, at_least=12)
async def test_repeat_completes_a_deletion_that_stopped_at_any_step(
    world: LogWorld, call: int
) -> None:
    await create_filled_stream(world)
    ledgers = [segment.ledger_id for segment in await world.segments("s")]
    dying, store = administrator(world)
    task = await start_and_stop_at(dying.delete_stream("s"), store, call)
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
    await create_filled_stream(world, NEW)
    await assert_new_stream_is_intact(world)


async def test_repeated_deletion_with_identity_keeps_the_next_stream(world: LogWorld) -> None:
    await create_filled_stream(world)
    old = (await world.namespace.describe("s")).identity
    await world.namespace.delete_stream("s", identity=old)
    await create_filled_stream(world, NEW)
    with pytest.raises(NoSuchStreamError):
        await world.namespace.delete_stream("s", identity=old)
    await assert_new_stream_is_intact(world)


async def test_deletion_makes_the_writer_lose_the_stream(world: LogWorld) -> None:
    await create_filled_stream(world)
    streams = StreamStore(world.store, "test")
    claim = await streams.claim("s", "late")
    await world.namespace.delete_stream("s")
    await create_filled_stream(world, NEW)
    with pytest.raises(StreamLostError):
        head = claim.head
        await streams.publish(claim, Segment(head.last_lssn + 1, head.stream_id, 99, head.epoch, 1))
    await assert_new_stream_is_intact(world)


async def test_writer_of_a_deleted_stream_is_never_acknowledged(world: LogWorld) -> None:
    """80 of 80 appends were acknowledged within 20 s after the deletion, and were lost."""
    writer = await world.writer("s")
    await writer.append(b"before")
    other, _ = administrator(world)
    await other.delete_stream("s")
    with pytest.raises((StreamLostError, AppendOutcomeUnknownError)):
        await writer.append(b"after")
    with pytest.raises((StreamLostError, AppendOutcomeUnknownError)):
        await writer.append(b"later")
    await writer.abort()


async def test_append_in_flight_is_not_acknowledged_after_the_deletion(world: LogWorld) -> None:
    """The writer must not recover the ledger, find the entry there and acknowledge it late."""
    writer = await world.writer("s")
    world.ledgers.are_acks_held = True
    pending = writer.append(b"in flight")
    await asyncio.sleep(1)
    other, store = administrator(world)
    deletion = await start_and_stop_at(other.delete_stream("s"), store, 8)  # fenced, not deleted
    world.ledgers.are_acks_held = False
    world.ledgers.release_acks()
    with pytest.raises(AppendOutcomeUnknownError):
        await pending
    deletion.cancel()
    await asyncio.wait([deletion])
    await writer.abort()


async def test_ledgers_are_fenced_before_anything_is_deleted(world: LogWorld) -> None:
    await create_filled_stream(world)
    writer = await world.namespace.open_writer("s")
    await writer.append(b"2")
    before = dict(world.ledgers.ledgers)
    world.ledgers.is_recovery_refused = True
    for _ in range(2):
        with pytest.raises(DeletionPendingError, match="nothing is deleted yet") as pending:
            await world.namespace.delete_stream("s")
        assert pending.value.retryable
        assert world.ledgers.ledgers == before
        assert len(await world.segments("s")) == 4
        with pytest.raises(StreamExistsError, match="being deleted"):
            await world.namespace.create_stream("s")
    world.ledgers.is_recovery_refused = False
    await world.namespace.delete_stream("s")
    assert world.ledgers.ledgers == {}
    with pytest.raises((StreamLostError, AppendOutcomeUnknownError)):
        await writer.append(b"after")
    await writer.abort()


@at_each_call(3, at_least=6)  # at the second call it has not opened the stream yet
async def test_reader_of_a_deleted_stream_fails_and_never_reads_the_next_stream(
    world: LogWorld, call: int
) -> None:
    await create_filled_stream(world)
    slow, store = administrator(world)
    got: list[bytes] = []

    async def read() -> None:
        async with await slow.open_reader("s", EARLIEST) as reader:
            async for record in reader:
                got.append(record.payload)
                if len(got) == 6:
                    break

    error = await run_overtaken(world, read(), store, call, [b"of the next", b"of the next"])
    assert isinstance(error, NoSuchStreamError) or (error is None and len(got) == 6)
    assert got == ([b"0", b"1"] * 3)[: len(got)]


# --- other changes of a stream by its name ----------------------------------------------------


CHANGES: dict[str, Callable[[Namespace], Coroutine[None, None, object]]] = {
    "truncate": lambda namespace: namespace.truncate("s", Dlsn(3, 0, 0)),
    "policy": lambda namespace: namespace.set_stream_policy("s", None),
    "maintain": lambda namespace: namespace.maintain("s"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_overtaken_changes_do_not_affect_the_next_stream(name: str) -> None:
    @at_each_call(2, at_least=3)
    async def body(world: LogWorld, call: int) -> None:
        await create_filled_stream(world, StreamPolicy(purge_grace_ms=0))
        if name == "maintain":
            await world.namespace.truncate("s", Dlsn(3, 0, 0))  # what the pass purges
        slow, store = administrator(world)
        error = await run_overtaken(world, CHANGES[name](slow), store, call)
        assert error is None or isinstance(error, NoSuchStreamError)
        await assert_new_stream_is_intact(world)

    body()


@pytest.mark.parametrize("name", CHANGES)
def test_late_changes_do_not_affect_the_next_stream(name: str) -> None:
    @at_each_call(1, at_least=2)
    async def body(world: LogWorld, call: int) -> None:
        await create_filled_stream(world, StreamPolicy(purge_grace_ms=0))
        if name == "maintain":
            await world.namespace.truncate("s", Dlsn(3, 0, 0))
        slow, store = administrator(world)
        store.outcomes = [OK] * (call - 1) + [LATE]
        await CHANGES[name](slow)
        if not store.late:
            raise BeyondError
        await world.namespace.delete_stream("s")
        await create_filled_stream(world, NEW)
        await store.deliver()
        await assert_new_stream_is_intact(world)

    body()


async def test_late_creation_does_not_restore_a_deleted_stream(
    world: LogWorld,
) -> None:
    slow, store = administrator(world)
    store.outcomes = [LATE]
    await slow.create_stream("s")
    await world.namespace.delete_stream("s")
    await store.deliver()
    assert await world.namespace.streams() == []


async def test_late_creation_does_not_create_part_of_a_namespace(world: LogWorld) -> None:
    slow, store = administrator(world)
    store.outcomes = [LATE] * 2
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


async def test_late_subscription_is_not_created_without_its_stream_or_in_the_next_one(
    world: LogWorld,
) -> None:
    await world.namespace.create_stream("s")
    slow, store = administrator(world)
    store.outcomes = [LATE]
    await slow.subscriptions.create("s", "another", FIRST_DLSN)
    requests = list(store.late)
    await world.namespace.delete_stream("s")
    await store.deliver()
    with pytest.raises(NoSuchStreamError):
        await slow.subscriptions.create("s", "mine", FIRST_DLSN)
    assert await world.namespace.streams() == []
    await create_filled_stream(world, NEW)
    store.late = requests
    await store.deliver()
    assert await world.namespace.subscriptions.names("s") == ["mine"]


async def test_subscription_is_deleted_once(world: LogWorld) -> None:
    await create_filled_stream(world, NEW)
    subscriptions = world.namespace.subscriptions
    world.store.outcomes = [LATE]
    await subscriptions.delete("s", "mine")
    with pytest.raises(NoSuchSubscriptionError):
        await subscriptions.delete("s", "mine")
    await subscriptions.create("s", "mine", Dlsn(2, 0, 0))
    await world.store.deliver()
    world.store.outcomes = [LOST_REPLY]
    await subscriptions.create("s", "another", FIRST_DLSN)
    world.store.outcomes = [LOST_REPLY]
    await subscriptions.delete("s", "another")
    await assert_new_stream_is_intact(world)


# --- namespaces and topics --------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [LATE, LOST_REPLY, LOST_REQUEST])
async def test_namespace_deletion_does_not_affect_a_later_namespace(
    world: LogWorld, outcome: str
) -> None:
    await world.namespace.create_stream("s")
    await world.namespace.delete_stream("s")
    slow, store = administrator(world)
    store.outcomes = [outcome]
    await delete_namespace(store, "test")
    with pytest.raises(NoSuchNamespaceError):
        await delete_namespace(store, "test")
    await create_namespace(world.store, world.runtime, "test", NEW)
    await store.deliver()
    assert await slow.policy() == NEW


@at_each_call(2, at_least=4)
async def test_overtaken_namespace_deletion_keeps_the_new_namespace(
    world: LogWorld, call: int
) -> None:
    _, store = administrator(world)
    task = await start_and_stop_at(delete_namespace(store, "test"), store, call)
    with suppress(NoSuchNamespaceError):  # it may have been the last step
        await delete_namespace(world.store, "test")
    await create_namespace(world.store, world.runtime, "test", NEW)
    await task
    assert await world.namespace.policy() == NEW


async def test_late_policy_change_does_not_affect_the_next_namespace(world: LogWorld) -> None:
    slow, store = administrator(world)
    store.outcomes = [LATE]
    await slow.set_policy(StreamPolicy(roll_bytes=7))
    assert (await world.namespace.policy()).roll_bytes == 7
    await delete_namespace(world.store, "test")
    await create_namespace(world.store, world.runtime, "test", NEW)
    await store.deliver()
    assert await world.namespace.policy() == NEW


async def test_topic_deletion_does_not_affect_a_later_topic(world: LogWorld) -> None:
    topic = await create_topic(world.store, world.namespace, "t", 1)
    slow, store = administrator(world)
    await world.namespace.delete_stream("t.0")
    store.outcomes = [LATE] * ATTEMPTS
    with pytest.raises(IndeterminateError):
        await delete_topic(store, slow, "t")
    await delete_topic(world.store, world.namespace, "t")
    await create_topic(world.store, world.namespace, "t", 1)
    await store.deliver()
    assert await open_topic(world.store, world.namespace, "t") == topic
