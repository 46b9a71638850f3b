"""Writers of one stream in a process share record sets; a failure affects its own writer only."""

import asyncio

import pytest

from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    ClosedError,
    DeadlineExceededError,
    RecordTooLargeError,
    RhumblineError,
    TxidOutOfOrderError,
)
from rhumbline.proxies.client.proxy_writer import ProxyWriter
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.proxies.proxy_world import ProxyWorld, an_item


async def test_records_appended_in_one_loop_iteration_become_one_set(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    transport = world.transport()
    writers = [world.writer("s", transport) for _ in range(50)]

    async def produce(number: int, writer: ProxyWriter) -> list[Dlsn]:
        return [(await writer.append(b"%d-%d" % (number, n))).dlsn for n in range(10)]

    positions = await asyncio.gather(*(produce(*pair) for pair in enumerate(writers)))
    served = world.proxies["one:1"].writes.statistics()
    for writer in writers:
        await writer.close()
    await world.stop()
    assert served["records"] == 500
    assert served["sets"] == 10, "each round is one set"
    payload_at = {dlsn: payload for dlsn, payload in await world.contents("s")}
    assert len(payload_at) == 500
    for number, own_positions in enumerate(positions):
        assert [payload_at[dlsn] for dlsn in own_positions] == [
            b"%d-%d" % (number, n) for n in range(10)
        ]
        assert own_positions == sorted(own_positions)


async def test_record_that_the_proxy_refuses_fails_only_its_own_writer(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    transport = world.transport()
    anne, bert, carl = (world.writer("s", transport) for _ in range(3))
    await carl.append(b"high", log.clock.now_ms + 1_000_000)
    low, good = bert.append(b"low", 5), anne.append(b"a")
    with pytest.raises(TxidOutOfOrderError):
        await low
    with pytest.raises(TxidOutOfOrderError):
        bert.append(b"more")
    await good
    await anne.append(b"b")
    await anne.close()
    await carl.close()
    await world.stop()
    assert [p for _, p in await world.contents("s")] == [b"high", b"a", b"b"]


async def test_writer_that_passes_txids_later_keeps_its_order(log: LogWorld) -> None:
    world = ProxyWorld(log)
    log.ledgers.delay_s = lambda: 0.02
    await log.namespace.create_stream("s")
    await world.start("one:1", "two:1")
    transport = world.transport()
    anne, bert = world.writer("s", transport), world.writer("s", transport)
    await asyncio.gather(anne.append(b"a0"), bert.append(b"b0"))
    txid = log.clock.now_ms + 60_000
    tickets = [anne.append(b"a1"), bert.append(b"b1"), anne.append(b"a2", txid), anne.append(b"a3")]
    assert not tickets[0].is_done
    tickets.append(bert.append(b"b2"))
    await anne.flush()
    assert all(tickets[at].is_done for at in (0, 2, 3))
    await asyncio.gather(*tickets)
    await anne.close()
    await bert.close()
    await world.stop()
    contents = [p for _, p in await world.contents("s")]
    assert [p for p in contents if p.startswith(b"a")] == [b"a0", b"a1", b"a2", b"a3"]
    assert [p for p in contents if p.startswith(b"b")] == [b"b0", b"b1", b"b2"]


async def test_failed_producer_fails_the_producer_that_follows_it(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    writer = world.writer("s", timeout_ms=1000)
    await writer.append(b"a")
    await world.proxies["one:1"].crash()
    first, second = writer.append(b"b"), writer.append(b"c", 1 << 50)
    for ticket in (first, second):
        with pytest.raises(DeadlineExceededError):
            await ticket
    assert isinstance(writer.failure, DeadlineExceededError)
    with pytest.raises(DeadlineExceededError):
        await writer.close()
    await world.stop()


async def test_closing_or_aborting_a_writer_does_not_affect_others(log: LogWorld) -> None:
    world = ProxyWorld(log)
    log.ledgers.delay_s = lambda: 0.02
    await log.namespace.create_stream("s")
    await world.start("one:1")
    transport = world.transport()
    anne, bert, carl = (world.writer("s", transport) for _ in range(3))
    tickets = [one.append(b"x") for one in (anne, bert, carl)]
    await bert.close()
    await carl.abort()
    for one in (bert, carl):
        with pytest.raises(ClosedError):
            one.append(b"late")
    tickets.append(anne.append(b"y"))
    for one in (bert, carl):  # also while a batch is open that they could join
        with pytest.raises(ClosedError):
            one.append(b"late")
    await asyncio.gather(*tickets)
    await anne.abort()
    again = world.writer("s", transport)
    await again.append(b"z")
    await again.close()
    await world.stop()
    assert [p for _, p in await world.contents("s")] == [b"x", b"x", b"x", b"y", b"z"]


async def test_writer_opened_after_a_failure_gets_a_new_producer(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await world.start("one:1")
    transport = world.transport()
    anne, bert = world.writer("s", transport), world.writer("s", transport)
    failed = await asyncio.gather(
        *(one.append(b"x") for one in (anne, bert)), return_exceptions=True
    )
    assert all(isinstance(one, RhumblineError) for one in failed), "there is no such stream yet"
    await log.namespace.create_stream("s")
    assert anne.failure is not None and bert.failure is not None
    async with world.writer("s", transport) as writer:
        await writer.append(b"y")
    await world.stop()
    assert [p for _, p in await world.contents("s")] == [b"y"]


async def test_application_sets_follow_the_records_appended_before(log: LogWorld) -> None:
    world = ProxyWorld(log)
    log.ledgers.delay_s = lambda: 0.02
    await log.namespace.create_stream("s")
    await world.start("one:1")
    writer = world.writer("s")
    record = writer.append(b"a")
    result = await writer.append_set(an_item("s", b"b", b"c", producer=b"p" * 16).record_set)
    assert record.is_done and result.record_count == 2
    await writer.close()
    await world.stop()
    assert [p for _, p in await world.contents("s")] == [b"a", b"b", b"c"]


async def test_record_limit_of_the_policy_holds_for_every_kind_of_append(log: LogWorld) -> None:
    policy = StreamPolicy(record_bytes_max=100)
    await log.namespace.create_stream("s", policy)
    world = ProxyWorld(log)
    await world.start("one:1")
    async with world.writer("s", policy=policy) as thin:
        small = thin.append(b"x" * 100)
        with pytest.raises(RecordTooLargeError):
            thin.append(b"x" * 101)
        await small
    await world.stop()
    async with await log.namespace.open_writer("s") as writer:
        small = writer.append(b"x" * 100)
        with pytest.raises(RecordTooLargeError):
            writer.append(b"x" * 101)
        await small
