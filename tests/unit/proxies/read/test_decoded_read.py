"""A read with decoded records: the right records, the right starts, exact flow control, errors."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.message import Message

from rhumbline.cli.reference.record_set_vectors import vectors
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.compression import Codec
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import CorruptionError, InvalidPositionError
from rhumbline.core.protocol.record_set import encode_record_set, stamped
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.membership import READ
from rhumbline.proxies.read.decoded_read import MESSAGE_RECORDS_MAX, DecodedRead
from rhumbline.proxies.read.entry_block import EntryBlock
from rhumbline.proxies.read.flow_control import ReadCredit
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.proxy_service import ProxyService
from rhumbline.tests.support.fakes.direct_calls import DirectCalls
from rhumbline.tests.support.fakes.log_world import LogWorld

MANUAL = StreamPolicy(flush=FlushPolicy(period_ms=None), codec=Codec.ZSTD)


class Call:
    """A read call of a client that grants credit when the test says so."""

    def __init__(
        self,
        service: ProxyService,
        *,
        decodes: bool = True,
        **first: Any,  # noqa: ANN401 - fields of the message
    ) -> None:
        self.starts: list[pb.ReadStart] = []
        self.messages: list[pb.ReadResponse] = []
        self._requests: asyncio.Queue[pb.ReadRequest | None] = asyncio.Queue()
        self.grant(namespace="test", stream="s", decodes_records=decodes, **first)
        self.done = asyncio.ensure_future(
            service.stream_calls[methods.READ](self._sent(), self._receive)
        )

    def grant(self, **fields: Any) -> None:  # noqa: ANN401 - fields of the message
        self._requests.put_nowait(pb.ReadRequest(**fields))

    async def _sent(self) -> AsyncIterator[pb.ReadRequest]:
        while (request := await self._requests.get()) is not None:
            yield request

    async def _receive(self, message: Message | bytes) -> None:
        if isinstance(message, bytes):
            message = pb.ReadResponse.FromString(message)
        assert isinstance(message, pb.ReadResponse)
        if message.HasField("start"):
            self.starts.append(message.start)
        else:
            self.messages.append(message)

    @property
    def records(self) -> list[pb.Record]:
        return [record for message in self.messages for record in message.records]

    @property
    def payloads(self) -> list[bytes]:
        return [record.payload for record in self.records]

    async def end(self) -> None:
        self.done.cancel()
        await asyncio.wait([self.done])


async def a_service(log: LogWorld) -> ProxyService:
    service = ProxyService(
        log.runtime,
        log.store,
        lambda _: log.open_namespace(),
        ProxyConfig(),
        roles=(READ,),
        address="near:1",
        region="east",
        calls=DirectCalls(),
    )
    await service.join()
    return service


async def leave(service: ProxyService) -> None:
    await service.hand_over()
    await service.leave()


async def written(log: LogWorld, *sets: list[bytes], ends: bool = True) -> None:
    """Write record sets with txids 10, 11, 12 and so on."""
    writer = await log.writer("s", MANUAL)
    txid = 10
    for payloads in sets:
        waiting = []
        for payload in payloads:
            waiting.append(writer.append(payload, txid=txid))
            txid += 1
        await writer.flush()
        await asyncio.gather(*waiting)
    if ends:
        await writer.end_stream()
    else:
        await writer.close()


async def test_decoded_records_are_those_of_a_reader_of_the_log(log: LogWorld) -> None:
    sets = [[b"a", b""], [b"b" * 5_000], [b"%d" % number for number in range(5)]]
    await written(log, *sets)
    wanted = await log.read_all("s", 8)
    service = await a_service(log)
    call = Call(service)
    await asyncio.wait_for(call.done, 5)
    assert [
        (
            record.payload,
            record.txid,
            (record.position.lssn, record.position.entry_id, record.position.slot),
            record.position.stream_id,
            record.sequence_id,
            record.created_ms,
        )
        for record in call.records
    ] == [
        (r.payload, r.txid, tuple(r.dlsn), r.dlsn.stream_id, r.sequence_id, r.created_ms)
        for r in wanted
    ]
    assert not any(message.entries for message in call.messages)
    assert call.messages[-1].is_end
    await leave(service)


async def test_decoded_records_have_their_attributes_and_no_others(log: LogWorld) -> None:
    writer = await log.writer("s", MANUAL)
    waiting = [
        writer.append(b"a", key=b"k", headers={"x": b"1", "y": b""}, event_time=-5),
        writer.append(b"b"),
        writer.append(b"c", key=b""),
        writer.append(b"d", event_time=0),
    ]
    await writer.flush()
    await asyncio.gather(*waiting)
    await writer.end_stream()
    service = await a_service(log)
    call = Call(service)
    await asyncio.wait_for(call.done, 5)
    assert [
        (
            record.payload,
            record.key if record.HasField("key") else None,
            {header.name: header.value for header in record.headers},
            record.event_time if record.HasField("event_time") else None,
        )
        for record in call.records
    ] == [
        (b"a", b"k", {"x": b"1", "y": b""}, -5),
        (b"b", None, {}, None),
        (b"c", b"", {}, None),
        (b"d", None, {}, 0),
    ]
    await leave(service)


async def test_records_below_the_start_are_left_out(log: LogWorld) -> None:
    await written(log, [b"a", b"b", b"c"], [b"d", b"e"])
    service = await a_service(log)
    third = Call(service, sequence_id=2)
    await asyncio.wait_for(third.done, 5)
    assert third.payloads == [b"c", b"d", b"e"]
    by_txid = Call(service, txid=13)
    await asyncio.wait_for(by_txid.done, 5)
    assert by_txid.payloads == [b"d", b"e"]
    assert by_txid.starts[0].first_txid == 0, "the proxy has skipped them already"
    by_time = Call(service, event_ms=1_000_001, event_ahead_ms=1_000)
    await asyncio.wait_for(by_time.done, 5)
    assert by_time.payloads == []
    for read in third.records:  # the documented way to continue after a record
        after = read.position
        after.slot += 1
        rest = Call(service, position=after)
        await asyncio.wait_for(rest.done, 5)
        assert rest.payloads == third.payloads[third.payloads.index(read.payload) + 1 :]
    await leave(service)


async def test_reader_never_gets_more_records_than_its_credit(log: LogWorld) -> None:
    await written(log, [b"%d" % number for number in range(10)], [b"x", b"y"])
    service = await a_service(log)
    call = Call(service, credit_records=3)
    await asyncio.sleep(1)
    assert len(call.records) == 3
    call.grant(credit_records=8)
    await asyncio.sleep(1)
    assert len(call.records) == 11
    assert not call.done.done()
    call.grant(credit_records=100)
    await asyncio.wait_for(call.done, 5)
    assert call.payloads == [b"%d" % number for number in range(10)] + [b"x", b"y"]
    await leave(service)


async def test_credit_in_bytes_is_exceeded_by_one_record_at_most(log: LogWorld) -> None:
    await written(log, [b"z" * 100] * 10)
    service = await a_service(log)
    call = Call(service, credit_bytes=250)
    await asyncio.sleep(1)
    assert len(call.records) == 3
    call.grant(credit_bytes=51)  # 50 were exceeded
    await asyncio.sleep(1)
    assert len(call.records) == 4
    await call.end()
    await leave(service)


async def test_keys_and_headers_use_credit_like_payloads(log: LogWorld) -> None:
    writer = await log.writer("s", MANUAL)
    waiting = [writer.append(b"z" * 50, key=b"k" * 30, headers={"ab": b"c" * 18})]
    waiting += [writer.append(b"z" * 50, key=b"k" * 50) for _ in range(9)]
    await writer.flush()
    await asyncio.gather(*waiting)
    await writer.close()
    service = await a_service(log)
    call = Call(service, credit_bytes=250)
    await asyncio.sleep(1)
    assert len(call.records) == 3
    await call.end()
    await leave(service)


async def test_messages_of_decoded_records_are_bounded(log: LogWorld) -> None:
    await written(log, [b"%d" % number for number in range(2_500)])
    service = await a_service(log)
    call = Call(service)
    await asyncio.wait_for(call.done, 5)
    sizes = [len(message.records) for message in call.messages]
    assert sizes == [MESSAGE_RECORDS_MAX, MESSAGE_RECORDS_MAX, 500, 0]
    assert call.payloads == [b"%d" % number for number in range(2_500)]
    await leave(service)


async def test_idle_read_sends_heartbeats_and_continues(log: LogWorld) -> None:
    await written(log, [b"a"], ends=False)
    service = await a_service(log)
    call = Call(service, heartbeat_ms=100)
    await asyncio.sleep(1)
    beats = [message for message in call.messages if not message.records]
    assert len(beats) > 5
    async with await log.namespace.open_writer("s") as writer:
        appended = writer.append(b"b", txid=20)
        await writer.flush()
        await appended
        await asyncio.sleep(1)
    assert call.payloads == [b"a", b"b"]
    await call.end()
    await leave(service)


async def test_read_that_stops_at_the_end_is_not_told_that_the_stream_ended(log: LogWorld) -> None:
    await written(log, [b"a", b"b"], ends=False)
    service = await a_service(log)
    call = Call(service, stops_at_end=True)
    await asyncio.wait_for(call.done, 5)
    assert call.payloads == [b"a", b"b"]
    assert not call.messages[-1].is_end
    await leave(service)


async def test_position_that_the_stream_cannot_have_is_refused(log: LogWorld) -> None:
    await written(log, [b"a", b"b"], ends=False)
    service = await a_service(log)
    position = pb.Position(lssn=1, entry_id=0, slot=7)
    with pytest.raises(InvalidPositionError, match="has 2 slots"):
        await asyncio.wait_for(Call(service, position=position).done, 5)
    await leave(service)


class BlockCursor:
    """A cursor with one block."""

    def __init__(self, *entries: bytes) -> None:
        self.position = (1, 0)
        self._block = EntryBlock((1, 0), (1, len(entries)), entries, 0)

    async def next(self, timeout_s: float | None = None) -> EntryBlock | None:
        if self.position == self._block.end:
            return None
        self.position = self._block.end
        return self._block


@pytest.mark.run_by(runner=asyncio.run)
async def test_records_before_a_damaged_set_are_sent_before_the_error() -> None:
    """A set whose columns are wrong although its checksums are right was reported too early."""
    good = encode_record_set([b"a", b"b"], first_txid=1, last_txid=1)
    (bad,) = [vector.entry for vector in vectors() if vector.name == "offsets-fall"]
    cursor: Any = BlockCursor(good + stamped(bad, position=2))
    credit = ReadCredit(1 << 20)
    read = DecodedRead(cursor, credit, stream="s", start=EARLIEST, position=Dlsn(1, 0, 0))
    block = await read.next(5)
    assert block is not None
    records = pb.ReadResponse.FromString(block.encoded()).records
    assert [record.payload for record in records] == [b"a", b"b"]
    with pytest.raises(CorruptionError):
        await read.next(5)
    await read.aclose()


async def test_decoded_and_raw_reads_share_the_blocks(log: LogWorld) -> None:
    await written(log, [b"a", b"b"])
    service = await a_service(log)
    raw = Call(service, decodes=False)
    await asyncio.wait_for(raw.done, 5)
    assert not raw.records
    assert [len(message.entries) for message in raw.messages] == [2, 0]
    first = service.statistics()["read"]["fetched_entries"]
    second = Call(service)
    await asyncio.wait_for(second.done, 5)
    assert second.payloads == [b"a", b"b"]
    assert service.statistics()["read"]["fetched_entries"] == first
    await leave(service)
