"""Conditional and atomic appends through proxies (rule PRX-62)."""

import asyncio

import pytest

from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    EndMismatchError,
    InvalidArgumentError,
    RecordTooLargeError,
    RhumblineError,
)
from rhumbline.core.protocol.record_set import TXID_FIRST, Producer, encode_record_set
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.grpc_status import decode_error, encode_error
from rhumbline.proxies.rpc.messages import decode_item
from rhumbline.proxies.write.append_item import Appended
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.proxies.proxy_world import ProxyWorld, an_item

START = Dlsn(1, 0, 0)


async def test_a_condition_is_decided_by_the_owner(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1", "two:1")
    writer, other = world.writer("s", world.transport()), world.writer("s", world.transport())
    first = await writer.append(b"a", expected=START, key=b"k")
    assert first.dlsn == START
    await other.append(b"b")
    with pytest.raises(EndMismatchError, match="ends at 1:2:1@") as caught:
        await writer.append(b"never", expected=Dlsn(1, 0, 1))
    assert caught.value.end is not None
    both = await writer.append_many([b"c", b"d"], expected=caught.value.end)
    assert (both.first, both.record_count) == (Dlsn(1, 3, 0), 2)
    await writer.append(b"e")  # a refusal fails no other append of the writer
    await writer.close()
    await other.close()
    await world.stop()
    assert [p for _, p in await world.contents("s")] == [b"a", b"b", b"c", b"d", b"e"]


async def test_a_condition_holds_across_a_change_of_the_owner(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1", "two:1")
    writer = world.writer("s", world.transport())
    first = await writer.append(b"a")
    end = first.dlsn._replace(slot=1)
    owner = next(proxy for proxy in world.proxies.values() if proxy.writes.statistics()["records"])
    await owner.stop()
    with pytest.raises(EndMismatchError):
        await writer.append(b"never", expected=START)
    await writer.append(b"b", expected=end)
    await writer.close()
    await world.stop()
    assert [p for _, p in await world.contents("s")] == [b"a", b"b"]


async def test_a_lost_reply_is_an_unknown_outcome_and_never_a_second_copy(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1", "two:1")
    writer = world.writer("s", world.transport())
    end = (await writer.append(b"a")).dlsn._replace(slot=1)
    owner = next(proxy for proxy in world.proxies.values() if proxy.writes.statistics()["records"])
    log.ledgers.are_acks_held = True
    sent = log.ledgers.entries_sent
    ticket = writer.append(b"b", expected=end)
    async with asyncio.timeout(5):
        while log.ledgers.entries_sent == sent:
            await log.ledgers.pause()
    log.ledgers.are_acks_held = False
    await owner.crash()  # the record is in the log; its acknowledgement is lost
    with pytest.raises(AppendOutcomeUnknownError, match="ends at 1:2:1@"):
        await ticket
    await writer.append(b"c", expected=end._replace(entry_id=2))
    await writer.close()
    await world.stop()
    assert [p for _, p in await world.contents("s")] == [b"a", b"b", b"c"]


async def test_close_waits_for_conditional_appends(log: LogWorld) -> None:
    world = ProxyWorld(log)
    log.ledgers.delay_s = lambda: 0.05
    await log.namespace.create_stream("s")
    await world.start("one:1")
    writer = world.writer("s", world.transport())
    earlier = writer.append(b"a")
    refused = writer.append(b"never", expected=START)
    await writer.close()
    assert earlier.is_done
    assert refused.is_done
    with pytest.raises(EndMismatchError):
        await refused
    await world.stop()


async def test_an_atomic_batch_is_one_set(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    policy = StreamPolicy(flush=FlushPolicy(bytes_max=1024))
    writer = world.writer("s", world.transport(), policy=policy)
    result = await writer.append_many([bytes(100)] * 50, atomic=True)
    assert result.first.entry_id == result.last.entry_id
    txids = list(range(10**13, 10**13 + 50))
    result = await writer.append_many([bytes(100)] * 50, txids, atomic=True)
    assert result.last.slot - result.first.slot == 49
    with pytest.raises(RecordTooLargeError, match="cannot be appended together"):
        writer.append_many([bytes(1 << 20)] * 3, atomic=True)
    await writer.close()
    await world.stop()
    assert [one.txid for one in (await log.read_all("s", 100))[50:]] == txids


async def test_a_simple_client_may_set_a_condition(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")

    async def append(**fields: object) -> Appended | RhumblineError:
        item = pb.AppendItem(namespace="test", stream="s", payloads=[b"a"], **fields)  # type: ignore[arg-type]
        return await world.append("one:1", decode_item(item))

    position = pb.Position(lssn=1)
    assert isinstance(await append(expected=position), Appended)
    refused = await append(expected=position)
    assert isinstance(refused, EndMismatchError)
    decoded = decode_error(encode_error(refused))
    assert isinstance(decoded, EndMismatchError)
    assert decoded.end == Dlsn(1, 0, 1)
    numbered = await append(expected=position, producer=b"p" * 16)
    assert isinstance(numbered, InvalidArgumentError)
    await world.append_ok("one:1", an_item("s", b"b", expected=Dlsn(1, 0, 1)))
    await world.stop()


async def test_a_numbered_set_cannot_be_conditional(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    writer = world.writer("s", world.transport())
    encoded = encode_record_set(
        [b"a"], first_txid=TXID_FIRST, last_txid=TXID_FIRST, producer=Producer(b"p" * 16, 0)
    )
    with pytest.raises(InvalidArgumentError, match="must not be numbered"):
        await writer.append_set(encoded, expected=START)
    await writer.close()
    await world.stop()
