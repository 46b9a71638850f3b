"""Thin producers over proxies that crash, release streams and refuse: no record is doubled."""

import asyncio
from collections import Counter
from random import Random

import pytest

from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.write.batch import Append
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    ClosedError,
    DeadlineExceededError,
    InvalidArgumentError,
    NoSuchStreamError,
    RecordTooLargeError,
    RhumblineError,
    TxidOutOfOrderError,
)
from rhumbline.proxies.client.proxy_writer import ProxyWriter
from rhumbline.proxies.config import ProxyConfig
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.proxies.proxy_world import ProxyWorld


async def test_records_are_stored_at_their_acknowledged_positions(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1", "two:1")
    anne, bert = world.writer("s"), world.writer("s")
    tickets = [(b"%d" % n, (anne if n % 2 else bert).append(b"%d" % n)) for n in range(200)]
    many = anne.append_many([b"m%d" % n for n in range(5)])
    results = {(await ticket).dlsn: payload for payload, ticket in tickets}
    result = await many
    assert result.record_count == 5 and result.regions
    results |= {dlsn: b"m%d" % n for n, dlsn in enumerate(many.dlsns())}
    await anne.close()
    await bert.close()
    await world.stop()
    assert dict(await world.contents("s")) == results


async def test_own_txids_are_kept_and_missing_ones_are_assigned(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    writer = world.writer("s")
    await asyncio.gather(writer.append(b"a", 5), writer.append(b"b", 9), writer.append(b"c"))
    await world.stop()
    async with await log.namespace.open_reader("s", Dlsn(1, 0, 0)) as reader:
        records = [await anext(reader) for _ in range(3)]
    assert [record.txid for record in records] == [5, 9, log.clock.now_ms]
    with pytest.raises(TxidOutOfOrderError):
        writer.append(b"d", 8)


async def test_many_records_of_one_call_fill_several_sets_in_order(log: LogWorld) -> None:
    world = ProxyWorld(log)
    policy = StreamPolicy(flush=FlushPolicy(bytes_max=200))
    await log.namespace.create_stream("s", policy)
    await world.start("one:1")
    writer = world.writer("s", policy=policy)
    payloads = [b"%d" % n * (n % 7) * 5 for n in range(40)]
    txids = range(2_000_000, 2_000_040)
    alone = writer.append(b"before")
    first = writer.append_many(payloads)
    last = writer.append_many(
        payloads, list(txids), keys=[b"%d" % n for n in range(40)], event_times=[7] * 40
    )
    assert (await alone).dlsn < (await first).first < (await last).first
    sequence = [
        *zip(first.dlsns(), payloads, strict=True),
        *zip(last.dlsns(), payloads, strict=True),
    ]
    await writer.close()
    await world.stop()
    assert [*await world.contents("s")][1:] == sequence
    assert len({dlsn.entry_id for dlsn, _ in sequence}) > 10
    async with await log.namespace.open_reader("s", (await last).first) as reader:
        records = [await anext(reader) for _ in range(40)]
    assert [record.txid for record in records] == list(txids)
    assert [(record.key, record.event_time) for record in records] == [
        (b"%d" % n, 7) for n in range(40)
    ]


async def test_invalid_records_are_refused_before_they_are_sent(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await world.start("one:1")
    writer = world.writer("none")
    with pytest.raises(RecordTooLargeError):
        writer.append(b"x" * (StreamPolicy().record_bytes_max + 1))
    with pytest.raises(InvalidArgumentError):
        writer.append("text")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        writer.append_many([])
    with pytest.raises(NoSuchStreamError):
        await writer.append(b"x")
    with pytest.raises(NoSuchStreamError):
        writer.append(b"y")
    with pytest.raises(NoSuchStreamError):
        await writer.close()
    await world.stop()


async def test_deadline_fails_the_append_with_the_known_outcome(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    await world.proxies["one:1"].crash()
    writer = world.writer("s", timeout_ms=1000)
    with pytest.raises(DeadlineExceededError):
        await writer.append(b"x")
    await world.start("two:1")
    log.ledgers.are_acks_held = True
    writer = world.writer("s", world.transport("two:1"), timeout_ms=1000)
    with pytest.raises(AppendOutcomeUnknownError):
        await writer.append(b"x")
    log.ledgers.are_acks_held = False
    log.ledgers.release_acks()
    await world.stop()


async def test_graceful_stop_is_invisible_to_producers(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1", "two:1")
    writer = world.writer("s")
    longest = 0.0
    loop = asyncio.get_running_loop()
    for n in range(400):
        began = loop.time()
        if n == 100:
            owner = await world.proxies["one:1"].claims.owner("test", "s")
            assert owner is not None
            stopping = loop.create_task(world.proxies[owner.address].stop())
        await writer.append(b"%d" % n)
        longest = max(longest, loop.time() - began)
        await asyncio.sleep(0.001)
    await stopping
    await writer.close()
    await world.stop()
    assert [p for _, p in await world.contents("s")] == [b"%d" % n for n in range(400)]
    assert longest < 0.2


async def produce(
    writer: ProxyWriter, name: str, random: Random, acked: dict[Dlsn, bytes], unknown: set[bytes]
) -> None:
    """Append bursts until the writer fails or has sent 60 records."""
    tickets: list[tuple[bytes, Append]] = []
    try:
        for n in range(60):
            payload = f"{name}-{n}".encode()
            unknown.add(payload)
            tickets.append((payload, writer.append(payload)))
            if random.random() < 0.5:
                await asyncio.sleep(random.random() * 0.2)
            if random.random() < 0.2:
                await tickets[-1][1]
    except RhumblineError as error:
        assert writer.failure is error
    for payload, ticket in tickets:
        try:
            result = await ticket
        except AppendOutcomeUnknownError:
            continue
        except RhumblineError:
            unknown.discard(payload)
            continue
        assert result.dlsn not in acked
        acked[result.dlsn] = payload
        unknown.discard(payload)


@pytest.mark.seeds(25)
async def test_no_record_is_lost_or_doubled_by_crashes_and_handovers(
    log: LogWorld, seed: int
) -> None:
    random = Random(seed)
    world = ProxyWorld(log)
    log.ledgers.delay_s = lambda: random.random() * 0.02
    await log.namespace.create_stream("s")
    config = ProxyConfig(stream_records_per_s=random.choice([0, 0, 200]))
    await world.start("p0:1", "p1:1", config=config)
    acked: dict[Dlsn, bytes] = {}
    unknown: set[bytes] = set()
    transport = world.transport("p0:1", "p1:1", "p2:1", "p3:1", "p4:1")
    for address in ("p2:1", "p3:1", "p4:1"):
        world.proxies[address] = dead = type(world.proxies["p0:1"])(world, address, "east", config)
        dead.is_dead = True
    loop = asyncio.get_running_loop()
    producers = [
        loop.create_task(
            produce(world.writer("s", transport), f"w{w}", Random(seed * 100 + w), acked, unknown)
        )
        for w in range(4)
    ]
    alive, fresh = ["p0:1", "p1:1"], 2
    for _ in range(3):
        await asyncio.sleep(random.random() * 3)
        victim = world.proxies[alive.pop(random.randrange(2))]
        ending = loop.create_task(victim.crash() if random.random() < 0.6 else victim.stop())
        address = f"p{fresh}:1"
        fresh += 1
        await world.start(address, config=config)
        alive.append(address)
        if random.random() < 0.3:
            log.ledgers.fail_writers()
        await ending
    for task in producers:
        await task
    await world.stop()
    contents = await world.contents("s")
    payload_at = dict(contents)
    counts = Counter(payload for _, payload in contents)
    assert all(count == 1 for count in counts.values()), "doubled"
    assert {d: payload_at.get(d) for d in acked} == acked, "lost or moved"
    assert set(counts) - set(acked.values()) <= unknown, (
        "stored, but neither acknowledged nor unknown"
    )
    for w in range(4):
        own_payloads = [p for _, p in contents if p.startswith(b"w%d-" % w)]
        numbers = [int(p.split(b"-")[1]) for p in own_payloads]
        assert numbers == sorted(numbers), "out of order"
    assert len(acked) == 240, "every record is acknowledged in the end"


async def test_closed_writer_accepts_nothing(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    writer = world.writer("s")
    ticket = writer.append(b"x")
    await writer.close()
    assert ticket.is_done
    with pytest.raises(ClosedError):
        writer.append(b"y")
    await writer.close()
    await world.stop()


async def test_deleted_stream_acknowledges_no_thin_client(log: LogWorld) -> None:
    """The proxy's writer was not fenced, so thin clients were acknowledged and lost records."""
    world = ProxyWorld(log)
    await world.start("p1", "p2")
    await log.namespace.create_stream("s")
    writer = world.writer("s")
    await writer.append(b"before")
    await log.namespace.delete_stream("s")
    for payload in (b"after", b"later"):
        with pytest.raises((NoSuchStreamError, AppendOutcomeUnknownError)):
            await writer.append(payload)
    await log.namespace.create_stream("s")
    await world.writer("s").append(b"of the next")
    await writer.abort()
    await world.stop()
    assert [payload for _, payload in await world.contents("s")] == [b"of the next"]
