"""Tests that each numbered record is in the stream once, despite failures and repeats.

The rules are STR-16 and STR-17.
"""

import asyncio
from random import Random

import pytest

from rhumbline.core.log.config import WriterConfig
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.write import dedup_table as dedup_table_module
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    BookieUnavailableError,
    CorruptionError,
    DuplicateRecordError,
    InvalidArgumentError,
    RecordTooLargeError,
    RhumblineError,
    SequenceGapError,
    TxidOutOfOrderError,
)
from rhumbline.core.protocol.record_set import Kind, Producer, encode_control, encode_record_set
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY, LOST_REQUEST, OK

ONE = b"1" * 16
TWO = b"2" * 16


async def test_repeated_set_is_not_appended_and_returns_the_first_result(world: LogWorld) -> None:
    writer = await world.writer("s")
    first = writer.append_numbered(ONE, 0, [b"a", b"b"])
    again = writer.append_numbered(ONE, 0, [b"a", b"b"])  # while the first is in flight
    assert (await first) == (await again)
    assert (await writer.append_numbered(ONE, 0, [b"a", b"b"])) == (await first)
    assert writer.last_sequence(ONE) == 1
    await writer.append_numbered(ONE, 2, [b"c"])
    with pytest.raises(DuplicateRecordError):
        writer.append_numbered(ONE, 0, [b"a", b"b"])
    with pytest.raises(SequenceGapError):
        writer.append_numbered(ONE, 4, [b"e"])
    with pytest.raises(SequenceGapError):
        writer.append_numbered(ONE, 2, [b"c", b"d"])
    await writer.append_numbered(TWO, 0, [b"x"])
    await writer.append(b"plain")
    await writer.close()
    records = await world.read_all("s", 5)
    assert [r.payload for r in records] == [b"a", b"b", b"c", b"x", b"plain"]
    assert [r.producer for r in records] == [(ONE, 0), (ONE, 1), (ONE, 2), (TWO, 0), None]


async def test_repeat_of_truncated_records_is_detected(world: LogWorld) -> None:
    """Regression: the snapshot was purged with the records (simulator plan streams, seed 1668)."""
    writer = await world.writer("s", StreamPolicy(purge_grace_ms=0))
    first = await writer.append_numbered(ONE, 0, [b"a", b"b"])
    await writer.close()
    await (await world.writer("s")).close()  # an empty segment, which has no snapshot of its own
    await world.namespace.truncate("s", Dlsn(3, 0, 0))
    for _ in range(3):
        world.clock.now_ms += 1
        assert (await world.namespace.maintain("s")).purged == ()
    following = await world.writer("s")
    again = await following.append_numbered(ONE, 0, [b"a", b"b"])
    assert again[:3] == first[:3]
    await following.append_numbered(ONE, 2, [b"c"])
    await following.close()
    world.clock.now_ms += 1
    assert (await world.namespace.maintain("s")).purged == (1, 2), "segment 3 has a snapshot"
    last = await world.writer("s")
    with pytest.raises(DuplicateRecordError):
        last.append_numbered(ONE, 0, [b"a", b"b"])
    await last.close()


@pytest.mark.parametrize("acked", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("closes", [False, True])
async def test_next_owner_detects_duplicates(
    world: LogWorld, acked: bool, keeps: bool, closes: bool
) -> None:
    world.ledgers.keeps_unacked = keeps
    writer = await world.writer("s")
    record_set = await writer.append_numbered(ONE, 0, [b"0", b"1"])
    world.ledgers.are_acks_held = not acked
    open_set = writer.append_numbered(ONE, 2, [b"2"])
    await asyncio.sleep(0.1)
    if closes and acked:
        await writer.close()
    else:
        await writer.abort()
    world.ledgers.are_acks_held = False
    await (await world.writer("s")).close()  # an empty segment in between
    following = await world.writer("s")
    is_stored = acked or keeps
    assert following.last_sequence(ONE) == (2 if is_stored else 1)
    if not is_stored:
        assert (await following.append_numbered(ONE, 0, [b"0", b"1"])).first == record_set.first
    repeated = await following.append_numbered(ONE, 2, [b"2"])
    if acked:
        assert repeated.first == (await open_set).first
    await following.append_numbered(ONE, 3, [b"3"])
    await following.close()
    assert [r.payload for r in await world.read_all("s", 4)] == [b"0", b"1", b"2", b"3"]


async def test_sets_of_many_producers_share_entries(world: LogWorld) -> None:
    writer = await world.writer("s")
    sets = [
        encode_record_set(
            [b"%d-%d" % (p, n) for n in range(3)],
            first_txid=1,
            last_txid=1,
            producer=Producer(b"%016d" % p, 0),
        )
        for p in range(1, 6)
    ]
    results = [await ticket for ticket in [writer.append_set(record_set) for record_set in sets]]
    assert len({result.first.entry_id for result in results}) == 1
    assert [result.first.slot for result in results] == [0, 3, 6, 9, 12]
    await writer.close()
    records = await world.read_all("s", 15)
    assert [r.payload for r in records] == [
        b"%d-%d" % (p, n) for p in range(1, 6) for n in range(3)
    ]
    assert {r.txid for r in records} == {world.clock.now_ms}
    assert [r.sequence_id for r in records] == list(range(15))


async def test_sets_and_records_keep_the_call_order(world: LogWorld) -> None:
    writer = await world.writer("s")
    record_set = encode_record_set([b"set"], first_txid=1, last_txid=1)
    for n in range(3):
        writer.append(b"record %d" % n)
        writer.append_set(record_set)
        writer.append_many([b"many %d" % n])
    await writer.close()
    expected = [text for n in range(3) for text in (b"record %d" % n, b"set", b"many %d" % n)]
    assert [r.payload for r in await world.read_all("s", 9)] == expected


async def test_sets_can_keep_their_txids(world: LogWorld) -> None:
    writer = await world.writer("s")
    own = encode_record_set([b"a", b"b"], first_txid=5, last_txid=7, txids=[5, 7])
    await writer.append_set(own, keeps_txids=True)
    with pytest.raises(TxidOutOfOrderError):
        writer.append_set(own, keeps_txids=True)
    with pytest.raises(InvalidArgumentError):
        writer.append_set(own)
    await writer.close()
    assert [r.txid for r in await world.read_all("s", 2)] == [5, 7]


async def test_invalid_sets_are_refused_before_they_are_sent(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(record_bytes_max=100))
    good = encode_record_set([b"a"], first_txid=1, last_txid=1)
    for bad in (b"", good[:-1], good[:-1] + b"?"):
        with pytest.raises(CorruptionError):
            writer.append_set(bad)
    control = encode_control(Kind.END_OF_STREAM, txid=1, position=0, created_ms=0)
    for bad in (control, good + good):
        with pytest.raises(InvalidArgumentError):
            writer.append_set(bad)
    for large in ([bytes(101)], [bytes(90)] * 50_000):
        with pytest.raises(RecordTooLargeError):
            writer.append_set(encode_record_set(large, first_txid=1, last_txid=1))
    for producer, sequence in ((b"short", 0), (bytes(16), 0), (ONE, -1)):
        with pytest.raises(InvalidArgumentError):
            writer.append_numbered(producer, sequence, [b"x"])
    assert world.ledgers.entries_sent == 0
    await writer.close()


async def test_table_is_bounded_and_removes_silent_producers(world: LogWorld) -> None:
    count = dedup_table_module.PRODUCERS_MAX + 10
    writer = await world.writer("s")
    for n in range(1, count + 1):
        writer.append_numbered(b"%016d" % n, 0, [b"x"])
    await writer.close()
    writer = await world.writer("s")
    assert writer.last_sequence(b"%016d" % 1) is None
    assert writer.last_sequence(b"%016d" % count) == 0
    world.clock.now_ms += dedup_table_module.IDLE_MS_MAX + 1
    await writer.append_numbered(ONE, 7, [b"x"])
    assert writer.last_sequence(b"%016d" % count) is None
    await writer.close()


async def test_takeover_reads_only_from_the_newest_snapshot(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(flush=FlushPolicy(bytes_max=1 << 20)))
    payload = [bytes(100_000)] * 10
    for n in range(30):
        await writer.append_numbered(ONE, 10 * n, payload)
    await writer.abort()
    world.ledgers.reads = 0
    following = await world.writer("s")
    assert following.last_sequence(ONE) == 299
    assert world.ledgers.reads <= 1 + 2, "the last entry, and the entries behind the snapshot"
    await following.close()


class RandomProducers:
    """Producers that retry until they know the outcome, over writers that fail and are replaced."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = LogWorld()
        self.writer: StreamWriter | None = None
        self.is_over = False

    async def run_owner(self) -> None:
        while not self.is_over:
            config = WriterConfig(
                failover_ms_max=500,
                backoff_ms_min=5,
                backoff_ms_max=20,
                producers_snapshot_bytes=self.random.choice([1, 1000, 10**6]),
            )
            try:
                self.writer = await self.world.open_namespace(config).open_writer("s")
            except RhumblineError:
                await asyncio.sleep(0.05)
                continue
            await asyncio.sleep(self.random.random() * 0.3)
            if self.random.random() < 0.5:
                await self.writer.abort()

    async def inject_faults(self) -> None:
        ledgers = self.world.ledgers
        while not self.is_over:
            await asyncio.sleep(self.random.random() * 0.2)
            ledgers.keeps_unacked = self.random.random() < 0.5
            if self.random.random() < 0.5:
                ledgers.are_acks_held = True
                await asyncio.sleep(self.random.random() * 0.3)
                ledgers.are_acks_held = False
                if self.random.random() < 0.7:
                    ledgers.fail_writers(BookieUnavailableError("chaos"))
                ledgers.release_acks()
            else:
                self.world.store.outcomes = self.random.choices([OK, LOST_REPLY, LOST_REQUEST], k=3)

    async def run_producer(self, identity: bytes, sets: int) -> int:
        sequence = 0
        for _ in range(sets):
            payloads = [
                b"%s %d" % (identity, sequence + n) for n in range(self.random.randrange(1, 5))
            ]
            while True:
                try:
                    assert self.writer is not None
                    ticket = self.writer.append_numbered(identity, sequence, payloads)
                    async with asyncio.timeout(0.1):
                        await ticket
                    break
                except (RhumblineError, TimeoutError) as error:
                    assert not isinstance(error, SequenceGapError | DuplicateRecordError)
                    await asyncio.sleep(self.random.random() * 0.05)
            sequence += len(payloads)
        return sequence

    async def run(self) -> None:
        world, random = self.world, self.random
        for part in (world.ledgers, world.store):
            part.delay_s = lambda: random.choice([0, 0.001, 0.005])
        policy = StreamPolicy(roll_bytes=random.choice([500, 5000, 10**6]))
        await create_namespace(world.store, world.runtime, "test", policy)
        await world.namespace.create_stream("s")
        helpers = [
            asyncio.ensure_future(self.run_owner()),
            asyncio.ensure_future(self.inject_faults()),
        ]
        await asyncio.sleep(0.5)
        ids = [b"%016d" % n for n in range(1, 5)]
        counts = await asyncio.gather(*(self.run_producer(identity, 40) for identity in ids))
        self.is_over = True
        for helper in helpers:
            await helper
        world.store.outcomes = []
        if self.writer is not None:
            await self.writer.abort()
        await (await world.namespace.open_writer("s")).end_stream()
        reader = await world.namespace.open_reader("s", EARLIEST)
        log = [record async for record in reader]
        await reader.aclose()
        for identity, count in zip(ids, counts, strict=True):
            mine = [r.producer[1] for r in log if r.producer and r.producer[0] == identity]
            assert mine == list(range(count)), "each sequence once and in order (G16)"
            for record in log:
                assert record.producer is not None
                assert record.payload == b"%s %d" % record.producer


@pytest.mark.parametrize("block", range(2))
def test_each_sequence_is_stored_once_despite_failures_and_takeovers(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        try:
            run_jumping(RandomProducers(seed).run())
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


async def test_snapshot_contains_earlier_sets_in_flight(world: LogWorld) -> None:
    writer = await world.writer("s", None, WriterConfig(producers_snapshot_bytes=1))
    world.ledgers.are_acks_held = True
    for identity in (ONE, TWO):
        writer.append_numbered(identity, 0, [b"x"])
        await asyncio.sleep(0.01)
    await writer.abort()
    assert world.ledgers.entries_sent == 4, "two snapshots and two sets"
    following = await world.writer("s")
    assert [following.last_sequence(identity) for identity in (ONE, TWO)] == [0, 0]
    world.ledgers.are_acks_held = False
    await following.close()


@pytest.mark.parametrize("acked", range(7))
async def test_snapshot_contains_no_later_sets(world: LogWorld, acked: int) -> None:
    config = WriterConfig(entries_in_flight_max=2, producers_snapshot_bytes=1)
    writer = await world.writer("s", None, config)
    world.ledgers.are_acks_held = True
    for identity, sequence in ((ONE, 0), (TWO, 0), (ONE, 1)):
        writer.append_numbered(identity, sequence, [b"x"])
        writer.append(b"between, so that each set is an entry")
    await asyncio.sleep(0.01)
    for _ in range(acked):
        world.ledgers.release_acks(1)
    await writer.abort()
    following = await world.writer("s")
    known = following.last_sequence(ONE)
    world.ledgers.are_acks_held = False
    await following.close()
    records = await world.read_all("s", (await world.segments("s"))[0].record_count)
    there = [r.producer[1] for r in records if r.producer and r.producer[0] == ONE]
    assert known == max(there, default=None)


async def test_segment_of_keepalives_forgets_no_producer(world: LogWorld) -> None:
    """An idle writer leaves keepalives only, and the next writer still knows the producers."""
    policy = StreamPolicy(keepalive_ms=1_000)
    writer = await world.writer("s", policy)
    first = await writer.append_numbered(ONE, 0, [b"a", b"b"])
    await writer.close()
    idle = await world.writer("s", policy)
    await asyncio.sleep(5)
    await idle.close()
    successor = await world.writer("s", policy)
    again = await successor.append_numbered(ONE, 0, [b"a", b"b"])
    assert again[:3] == first[:3]
    await successor.close()
    assert [record.payload for record in await world.read_all("s", 2)] == [b"a", b"b"]
