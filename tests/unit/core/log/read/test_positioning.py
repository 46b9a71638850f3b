"""Tests of start positions, stored positions and the typed errors of readers (rule STR-20)."""

import asyncio
from dataclasses import replace
from typing import cast

import pytest

from rhumbline.core.log.config import ReaderConfig
from rhumbline.core.log.ledger_interface import LedgerProvider, ReadableLedger
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    BookieUnavailableError,
    ClosedError,
    CorruptionError,
    GapError,
    InvalidArgumentError,
    InvalidPositionError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    NoSuchStreamError,
    TruncatedError,
)
from rhumbline.core.protocol.record_set import encode_record_set
from rhumbline.core.protocol.start import EARLIEST, LATEST, AtSequenceId, AtTxid, Start
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.lossy_store import OK, UNAVAILABLE


async def write_records(world: LogWorld, *, close: bool = True) -> list[Dlsn]:
    """Write 60 records with txids 10 * n + 1, in several segments. Return their positions."""
    writer = await world.writer("s", StreamPolicy(roll_bytes=400))
    dlsns: list[Dlsn] = []
    for n in range(0, 60, 3):
        tickets = [writer.append(b"%d" % m, txid=10 * m + 1) for m in range(n, n + 3)]
        dlsns += [(await ticket).dlsn for ticket in tickets]
        await asyncio.sleep(0.01)
    if close:
        await writer.close()
    assert len({d.lssn for d in dlsns}) > 5
    return dlsns


async def test_starts_at_every_position(world: LogWorld) -> None:
    dlsns = await write_records(world)
    for n, dlsn in enumerate(dlsns):
        records = await world.read_all("s", 60 - n, dlsn)
        assert [r.payload for r in records] == [b"%d" % m for m in range(n, 60)]
        assert [r.sequence_id for r in records] == list(range(n, 60))


async def test_starts_between_positions(world: LogWorld) -> None:
    dlsns = await write_records(world)
    for n, dlsn in enumerate(dlsns[:-1]):
        behind = dlsn._replace(slot=dlsn.slot + 1)
        assert (await world.read_all("s", 1, behind))[0].payload == b"%d" % (n + 1)
    last = dlsns[30]
    segment = next(s for s in await world.segments("s") if s.lssn == last.lssn)
    end = Dlsn(last.lssn, segment.last_entry_id + 1, 0)
    expected = next(n for n, d in enumerate(dlsns) if d.lssn > last.lssn)
    for between in (end, Dlsn(last.lssn + 1, 0, 0)):
        assert (await world.read_all("s", 1, between))[0].payload == b"%d" % expected


async def test_position_that_the_stream_cannot_have_is_an_error_with_its_reason(
    world: LogWorld,
) -> None:
    """A reader waited for ever, or silently went on in the next segment."""
    dlsns = await write_records(world)
    first, last = dlsns[0], dlsns[-1]
    end = (await world.segments("s"))[0].last_entry_id
    for position, reason in (
        (Dlsn(99, 0, 0), f"its last segment is {last.lssn}"),
        (Dlsn(last.lssn + 1, 1, 0), f"its last segment is {last.lssn}"),
        (Dlsn(1, 1_000_000, 0), f"the last entry of segment 1 is {end}"),
        (Dlsn(1, end + 2, 0), f"the last entry of segment 1 is {end}"),
        (first._replace(slot=4), "the entry has 3 slots"),
    ):
        reader = await world.namespace.open_reader("s", position)
        for _ in range(2):  # a repeat gives the same error
            with pytest.raises(InvalidPositionError, match=reason):
                await asyncio.wait_for(anext(reader), 60)
        await reader.aclose()
    after = await world.namespace.open_reader("s", Dlsn(last.lssn + 1, 0, 0))
    with pytest.raises(TimeoutError):  # the next segment may come
        await asyncio.wait_for(anext(after), 60)
    await after.aclose()


async def test_position_of_another_stream_of_the_name_is_an_error(world: LogWorld) -> None:
    """The stored position of a deleted stream skipped ten records of the next one."""
    dlsns = await write_records(world)
    async with await world.namespace.open_reader("s", EARLIEST) as reader:
        first = await anext(reader)
        batch = await reader.next_batch()
        assert batch is not None
        positions = [reader.position, first.dlsn, batch.first_dlsn, batch.last_dlsn, dlsns[3]]
    positions += [await world.namespace.end("s"), (await world.namespace.describe("s")).start]
    texts = [str(position) for position in positions]
    for text in texts:
        async with await world.namespace.open_reader("s", Dlsn.parse(text)):
            pass
    await world.namespace.delete_stream("s")
    await write_records(world)
    for text in texts:
        stored = Dlsn.parse(text)
        assert str(stored) == text
        with pytest.raises(InvalidPositionError, match="is of another stream than s"):
            await world.namespace.open_reader("s", stored)
        with pytest.raises(InvalidPositionError, match="deleted and created again"):
            await world.namespace.truncate("s", stored)
        with pytest.raises(InvalidPositionError):
            await world.namespace.untruncate("s", stored)
        with pytest.raises(InvalidPositionError):
            await world.namespace.subscriptions.create("s", "mine", stored)
        async with await world.namespace.open_reader("s", EARLIEST) as reader:
            with pytest.raises(InvalidPositionError):
                await reader.next_batch(until=stored)


async def test_commits_of_a_deleted_stream_never_move_the_next_ones_subscription(
    world: LogWorld,
) -> None:
    """Both subscriptions have generation 0, so the late commit was accepted."""
    subscriptions = world.namespace.subscriptions
    dlsns = await write_records(world)
    old = await subscriptions.create("s", "mine", Dlsn(1, 0, 0))
    assert old.position.stream_id == dlsns[0].stream_id
    await world.namespace.delete_stream("s")
    await write_records(world)
    fresh = await subscriptions.create("s", "mine", Dlsn(1, 0, 0))
    for call in (
        subscriptions.commit(old, "s", dlsns[9]),
        subscriptions.reset("s", "mine", dlsns[9]),
    ):
        with pytest.raises(InvalidPositionError):
            await call
    assert await subscriptions.read("s", "mine") == fresh
    moved = await subscriptions.commit(fresh, "s", Dlsn(2, 0, 0))
    assert moved.position.stream_id == fresh.position.stream_id


async def test_starts_at_every_txid(world: LogWorld) -> None:
    dlsns = await write_records(world)
    for n in range(60):
        for txid in (10 * n + 1, 10 * n - 8, 10 * n):
            if txid > 0:
                assert (await world.read_all("s", 1, AtTxid(txid)))[0].dlsn == dlsns[n], txid


async def test_waits_for_a_txid_that_is_not_written_yet(world: LogWorld) -> None:
    await write_records(world)
    reader = await world.namespace.open_reader("s", AtTxid(1000))
    writer = await world.writer("s")
    writer.append(b"too low", txid=999)
    writer.append(b"right", txid=1001)
    writer.append(b"next", txid=1001)
    await writer.close()
    assert [(await anext(reader)).payload for _ in range(2)] == [b"right", b"next"]
    await reader.aclose()


async def test_starts_at_every_sequence_id(world: LogWorld) -> None:
    dlsns = await write_records(world, close=False)
    await asyncio.sleep(1)
    for n, dlsn in enumerate(dlsns):
        record = (await world.read_all("s", 1, AtSequenceId(n)))[0]
        assert (record.dlsn, record.sequence_id) == (dlsn, n)
    for bad in (-1, 60, 10**9):
        with pytest.raises(InvalidArgumentError):
            await world.namespace.open_reader("s", AtSequenceId(bad))
    await (await world.writer("s")).close()


async def test_search_reads_few_segments(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=1))
    for n in range(300):
        await writer.append(b"%d" % n, txid=n + 1)
        await asyncio.sleep(0.001)
    await writer.close()
    assert len(await world.segments("s")) > 200
    world.store.reads = world.ledgers.reads = 0
    reader = await world.namespace.open_reader("s", AtTxid(150))
    assert world.store.reads <= 2 + 9
    assert world.ledgers.reads <= 3
    assert (await anext(reader)).payload == b"149"
    await reader.aclose()


async def test_search_skips_segments_that_are_truncated_meanwhile(
    world: LogWorld,
) -> None:
    dlsns = await write_records(world, close=False)
    client = world.ledgers.client()
    first = [next(d for d in dlsns if d.lssn == lssn) for lssn in (2, 3, 4)]

    class TruncatingLedgers:
        """Ledgers whose segment is truncated when they are opened."""

        async def open(
            self, ledger_id: int, password: bytes = b"", *, stale_ok: bool = False
        ) -> ReadableLedger:
            if first:
                await world.namespace.truncate("s", first.pop(0))
                raise NoSuchLedgerError(f"ledger {ledger_id}")
            return await client.open(ledger_id, password)

        def __getattr__(self, name: str) -> object:
            return getattr(client, name)

    namespace = Namespace(
        world.runtime, world.store, cast(LedgerProvider, TruncatingLedgers()), "test"
    )
    start = AtTxid(1)
    async with await namespace.open_reader("s", start, on_truncated=lambda *_: None) as reader:
        record = await asyncio.wait_for(anext(reader), 5)
    assert record.dlsn == next(d for d in dlsns if d.lssn == 4) and not first


@pytest.mark.parametrize("start", [LATEST, AtTxid(1)])
async def test_stream_whose_deletion_was_interrupted_does_not_exist(
    world: LogWorld, start: Start
) -> None:
    """Its ledger is gone and its segment is not, which was reported as a missing ledger."""
    await (await world.writer("s")).append(b"x", txid=1)
    world.store.outcomes = [OK, UNAVAILABLE]
    with pytest.raises(MetadataUnavailableError):
        await world.namespace.delete_stream("s")
    assert len(await world.segments("s")) == 1
    with pytest.raises(NoSuchStreamError, match="no stream s in namespace test"):
        await world.namespace.open_reader("s", start)
    with pytest.raises(NoSuchStreamError, match="no stream s in namespace test"):
        await world.namespace.end("s")


async def test_starts_at_the_latest(world: LogWorld) -> None:
    await write_records(world)
    reader = await world.namespace.open_reader("s", LATEST)
    writer = await world.writer("s")
    await writer.append(b"new")
    assert (await anext(reader)).payload == b"new"
    await reader.aclose()
    await writer.close()


async def test_stored_position_skips_and_repeats_nothing(world: LogWorld) -> None:
    await write_records(world)
    seen: list[bytes] = []
    position: Dlsn | None = None
    for count in (1, 2, 3, 4, 5, 45):
        start = EARLIEST if position is None else Dlsn.parse(str(position))
        async with await world.namespace.open_reader("s", start) as reader:
            for _ in range(count):
                seen.append((await anext(reader)).payload)
            position = Dlsn.from_bytes(reader.position.to_bytes())
    assert seen == [b"%d" % n for n in range(60)]


async def test_records_and_batches_mix(world: LogWorld) -> None:
    await write_records(world)
    reader = await world.namespace.open_reader("s", EARLIEST)
    first = await reader.next_batch()
    assert first is not None
    assert first.payloads() == [b"0", b"1", b"2"]
    assert list(first.txids()) == [1, 11, 21]
    assert (await anext(reader)).payload == b"3"
    rest = await reader.next_batch()
    assert rest is not None
    assert rest.payloads() == [b"4", b"5"]
    second = await reader.next_batch()
    assert second is not None
    assert second.first_dlsn.entry_id > first.last_dlsn.entry_id
    table = second.to_arrow(with_positions=True)
    assert table.column("payload").to_pylist() == second.payloads()
    assert table.column("txid").to_pylist() == list(second.txids())
    assert table.column("slot").to_pylist() == [0, 1, 2]
    await reader.aclose()
    with pytest.raises(ClosedError):
        await reader.next_batch()


async def test_switching_between_records_and_batches_skips_nothing(world: LogWorld) -> None:
    """After some records of a batch, the next batch skipped the others."""
    dlsns = await write_records(world)
    for until in (None, Dlsn(dlsns[-1].lssn + 1, 0, 0)):
        seen: list[bytes] = []
        async with await world.namespace.open_reader("s", dlsns[1]) as reader:
            while len(seen) < 59:
                seen.append((await anext(reader)).payload)
                position = reader.position
                ready = reader.try_next_batch()
                batch = ready or await reader.next_batch(until=until)
                assert batch is not None
                assert position <= batch.first_dlsn
                assert batch.start_sequence_id is not None
                assert next(r.sequence_id for r in batch.records()) == len(seen) + 1
                seen += batch.payloads()
        assert seen == [b"%d" % n for n in range(1, 60)]


async def test_first_batch_begins_at_the_start_position(world: LogWorld) -> None:
    dlsns = await write_records(world)
    async with await world.namespace.open_reader("s", dlsns[4]) as reader:
        batch = await reader.next_batch()
        assert batch is not None
        assert (len(batch), batch.first_dlsn, batch.last_dlsn) == (2, dlsns[4], dlsns[5])
        assert batch.payloads() == [b"4", b"5"]
        assert [r.dlsn for r in batch.records()] == dlsns[4:6]
        assert batch.to_arrow().column("payload").to_pylist() == [b"4", b"5"]


async def test_truncated_start_raises_or_advances(world: LogWorld) -> None:
    dlsns = await write_records(world)
    await StreamStore(world.store, "test").update("s", lambda r: r.truncated(dlsns[31]))
    with pytest.raises(TruncatedError) as failure:
        await world.namespace.open_reader("s", dlsns[30])
    assert failure.value.first_active == dlsns[31]
    advanced: list[tuple[Dlsn, Dlsn]] = []
    reader = await world.namespace.open_reader(
        "s", dlsns[3], on_truncated=lambda wanted, first: advanced.append((wanted, first))
    )
    assert (await anext(reader)).payload == b"31"
    assert advanced == [(dlsns[3], dlsns[31])]
    await reader.aclose()
    assert (await world.read_all("s", 1))[0].payload == b"31"
    assert (await world.read_all("s", 1, AtTxid(1)))[0].payload == b"31"
    with pytest.raises(TruncatedError):
        await world.namespace.open_reader("s", AtSequenceId(30))


async def test_truncation_and_deletion_while_reading_raise_typed_errors(world: LogWorld) -> None:
    dlsns = await write_records(world)
    # With the default, the reader would have read the other segments before they are truncated.
    hardly_ahead = world.open_namespace(reader_config=ReaderConfig(read_ahead_bytes_max=1))
    reader = await hardly_ahead.open_reader("s", dlsns[0])
    await anext(reader)
    streams = StreamStore(world.store, "test")
    await streams.update("s", lambda r: r.truncated(dlsns[31]))
    for ledger_id in list(world.ledgers.ledgers)[:3]:
        del world.ledgers.ledgers[ledger_id]
    with pytest.raises(TruncatedError):
        for _ in range(60):
            await anext(reader)
    await reader.aclose()
    reader = await world.namespace.open_reader("s", dlsns[31])
    await anext(reader)
    await world.namespace.delete_stream("s")
    with pytest.raises(NoSuchStreamError):
        for _ in range(60):
            await anext(reader)
    await reader.aclose()


async def test_missing_ledger_is_a_gap(world: LogWorld) -> None:
    dlsns = await write_records(world)
    del world.ledgers.ledgers[2]
    reader = await world.open_namespace().open_reader("s", dlsns[0])
    got = 0
    with pytest.raises(GapError, match="segment 2"):
        async for _ in reader:
            got += 1
    assert got == sum(d.lssn == 1 for d in dlsns)
    assert asyncio.get_running_loop().time() > 60, "the read was retried for ``unavailable_ms_max``"
    await reader.aclose()


async def test_corrupt_entry_stops_the_reader_after_the_last_good_record(world: LogWorld) -> None:
    dlsns = await write_records(world)
    bad = dlsns[33]
    entries = world.ledgers.ledgers[bad.lssn].entries
    entries[bad.entry_id] = entries[bad.entry_id][:-1] + b"?"
    reader = await world.namespace.open_reader("s", EARLIEST)
    got = []
    for _ in range(2):
        with pytest.raises(CorruptionError):
            async for record in reader:
                got.append(record.payload)
    assert got == [b"%d" % n for n in range(33)], "the reader never skips an entry"
    await reader.aclose()


async def test_non_consecutive_records_are_a_gap(world: LogWorld) -> None:
    dlsns = await write_records(world)
    bad = dlsns[33]
    entries = world.ledgers.ledgers[bad.lssn].entries
    entries[bad.entry_id] = encode_record_set([b"x"], first_txid=1, last_txid=1, position=77)
    reader = await world.namespace.open_reader("s", EARLIEST)
    with pytest.raises(GapError):
        async for _ in reader:
            pass
    await reader.aclose()


async def test_ledger_shorter_than_its_segment_is_a_gap(world: LogWorld) -> None:
    dlsns = await write_records(world)
    ledger = world.ledgers.ledgers[dlsns[0].lssn]
    last = ledger.metadata.last_entry_id - 1
    ledger.metadata = replace(ledger.metadata, last_entry_id=last)
    ledger.known_lac = last
    reader = await world.namespace.open_reader("s", EARLIEST)
    with pytest.raises(GapError, match="last entry in its metadata is 2"):
        async for _ in reader:
            pass
    await reader.aclose()


async def test_reader_retries_unavailable_bookies_and_then_raises(world: LogWorld) -> None:
    dlsns = await write_records(world)
    namespace = world.open_namespace(
        reader_config=ReaderConfig(unavailable_ms_max=1000, retry_ms=100)
    )
    reader = await namespace.open_reader("s", dlsns[0])
    world.ledgers.read_error = BookieUnavailableError("the test says so")
    asyncio.get_running_loop().call_later(0.5, lambda: setattr(world.ledgers, "read_error", None))
    assert (await anext(reader)).payload == b"0"
    world.ledgers.read_error = BookieUnavailableError("the test says so")
    got = 1
    with pytest.raises(BookieUnavailableError):
        async for _ in reader:
            got += 1
    world.ledgers.read_error = None
    async for record in reader:
        assert record.payload == b"%d" % got
        got += 1
        if got == 60:
            break
    await reader.aclose()


async def test_lost_watches_delay_but_lose_no_records(world: LogWorld) -> None:
    from rhumbline.core.runtime.metadata_store import Watch

    class LostWatch:
        def close(self) -> None:
            return

    def watch(path: str, callback: object, *, prefix: bool = False) -> Watch:
        return LostWatch()

    world.store.inner.watch = watch  # type: ignore[method-assign]
    writer = await world.writer("s")
    await writer.append(b"a")
    reader = await world.namespace.open_reader("s", EARLIEST)
    await anext(reader)
    waiting = asyncio.ensure_future(anext(reader))
    await writer.close()
    await asyncio.sleep(0.2)
    writer = await world.writer("s")
    await writer.append(b"b")
    assert (await asyncio.wait_for(waiting, 1)).payload == b"b"
    await reader.aclose()
    await writer.close()


async def test_cancelled_read_loses_nothing(world: LogWorld) -> None:
    writer = await world.writer("s")
    reader = await world.namespace.open_reader("s", EARLIEST)
    for n in range(20):
        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.sleep(0)
        await writer.append(b"%d" % n)
        assert (await anext(reader)).payload == b"%d" % n
    await reader.aclose()
    await writer.close()


async def test_empty_segments_are_skipped(world: LogWorld) -> None:
    for n in range(5):
        for _ in range(3):
            await (await world.writer("s")).close()
        writer = await world.writer("s")
        await writer.append(b"%d" % n)
        await writer.close()
    records = await world.read_all("s", 5)
    assert [r.payload for r in records] == [b"%d" % n for n in range(5)]
    assert [r.sequence_id for r in records] == list(range(5))
    assert (await world.read_all("s", 1, AtSequenceId(4)))[0].payload == b"4"


@pytest.mark.parametrize("bad", [Dlsn(0, 0, 0)])
async def test_impossible_positions_are_refused(world: LogWorld, bad: Dlsn) -> None:
    await write_records(world)
    with pytest.raises(InvalidArgumentError):
        await world.namespace.open_reader("s", bad)


@pytest.mark.parametrize("bad", ["1:0:0", None, 7])
async def test_values_that_are_no_positions_are_refused(world: LogWorld, bad: object) -> None:
    """They raised AttributeError from inside."""
    await write_records(world)
    with pytest.raises(InvalidArgumentError, match="start"):
        await world.namespace.open_reader("s", cast(Dlsn, bad))
    with pytest.raises(InvalidArgumentError, match="stream name is str, not"):
        await world.namespace.open_reader(cast(str, 5), EARLIEST)


async def test_stream_that_was_truncated_to_a_position_that_never_came_is_readable(
    world: LogWorld,
) -> None:
    dlsns = await write_records(world)
    expected = next(n for n, d in enumerate(dlsns) if d.lssn == 3)
    start = await world.namespace.truncate("s", Dlsn(2, 500, 7))
    for position in (EARLIEST, start, Dlsn.parse(str(start))):
        assert (await world.read_all("s", 1, position))[0].payload == b"%d" % expected
    with pytest.raises(InvalidPositionError):
        await world.read_all("s", 1, Dlsn(2, 500, 8))
