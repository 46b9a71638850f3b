"""A reader that catches up opens the next segments before it reaches them."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rhumbline.core.log.ledger_interface import LedgerEntry, ReadableLedger
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.read.read_ahead import BUDGET_BYTES_MIN
from rhumbline.core.log.read.segments_ahead import (
    SEGMENTS_AHEAD_MAX,
    OpenedSegment,
    SegmentsAhead,
    segments_to_open,
)
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    CorruptionError,
    NoSuchLedgerError,
    RhumblineError,
    TruncatedError,
    UnavailableError,
)
from rhumbline.core.protocol.segments import Segment
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.fake_ledgers import FakeEntry
from rhumbline.tests.support.fakes.log_world import LogWorld

SEGMENTS = 10
ROUND_TRIP_S = 0.08
POLICY = StreamPolicy(flush=FlushPolicy(bytes_max=1), purge_grace_ms=0)

BEFORE = Segment(1, "of-the-stream", 6, 1, 0, is_completed=True, last_entry_id=0, length_bytes=9)
OPEN = Segment(2, "of-the-stream", 7, 1, 0)
COMPLETED = replace(OPEN, is_completed=True, last_entry_id=9, record_count=10, length_bytes=1000)


# --- whole readers ------------------------------------------------------------------------------


async def write_segments(world: LogWorld, records: int, size: int = 1) -> list[bytes]:
    """Write completed segments, with one entry for each record; return all payloads."""
    written: list[bytes] = []
    for _ in range(SEGMENTS):
        writer = await world.writer("s", POLICY)
        for _ in range(records):
            written.append(b"%d" % len(written) * size)
            await writer.append(written[-1])
        await writer.close()
    return written


async def test_small_segments_are_opened_together(world: LogWorld) -> None:
    written = await write_segments(world, 3)
    # The first two segments are opened one after the other, and all others at once.
    assert await round_trips(world, written) <= 3 * 3


async def test_a_large_segment_is_opened_while_the_one_before_is_read(world: LogWorld) -> None:
    batches = 6
    size = BUDGET_BYTES_MIN // world.ledgers.batch_entries_max // 4 // 3  # of three digits
    written = await write_segments(world, batches * world.ledgers.batch_entries_max, size)
    assert await round_trips(world, written) <= 2 + SEGMENTS * batches


async def round_trips(world: LogWorld, written: list[bytes]) -> int:
    """Read the stream to its end, and return how many round trips it took."""
    reader = await world.namespace.open_reader("s", EARLIEST)
    world.store.delay_s = world.ledgers.delay_s = lambda: ROUND_TRIP_S
    loop = asyncio.get_running_loop()
    start = loop.time()
    got = [(await anext(reader)).payload for _ in written]
    passed_s = loop.time() - start
    assert got == written
    await reader.aclose()
    return round(passed_s / ROUND_TRIP_S)


async def test_segments_are_opened_for_a_reader_that_reads_no_entries_ahead(
    world: LogWorld,
) -> None:
    """A read proxy is such a reader: at each segment it waits only for the entries."""
    written = await write_segments(world, 3)
    reader = await world.namespace.open_reader("s", EARLIEST)
    world.store.delay_s = world.ledgers.delay_s = lambda: ROUND_TRIP_S
    loop = asyncio.get_running_loop()
    start, reads, fetched = loop.time(), world.ledgers.reads, 0
    while fetched < len(written):
        fetched += len((await reader.source.fetch()).entries)
    assert fetched == len(written)
    assert (
        round((loop.time() - start) / ROUND_TRIP_S) <= 3 * 3 + SEGMENTS - 3
    )  # without opening ahead: 3 for each segment
    assert world.ledgers.reads - reads == SEGMENTS, "no entries are read ahead"
    await reader.aclose()


async def test_a_segment_in_progress_is_not_opened_ahead(world: LogWorld) -> None:
    written = await write_segments(world, 3)
    writer = await world.writer("s")
    reader = await world.namespace.open_reader("s", EARLIEST)
    got = [(await anext(reader)).payload for _ in written]
    for n in range(3):
        await writer.append(b"new %d" % n)
        got.append((await anext(reader)).payload)
    assert got == [*written, b"new 0", b"new 1", b"new 2"]
    await writer.close()
    await reader.aclose()


async def test_entries_read_before_a_truncation_are_returned_before_its_error(
    world: LogWorld,
) -> None:
    written = await write_segments(world, 20, BUDGET_BYTES_MIN // 40)
    reader = await world.namespace.open_reader("s", EARLIEST)
    got = [(await anext(reader)).payload]
    await asyncio.sleep(1)
    await world.namespace.truncate("s", Dlsn(SEGMENTS, 0, 0))
    await world.namespace.maintain("s")
    with pytest.raises(TruncatedError) as failure:
        async for record in reader:
            got.append(record.payload)
    assert failure.value.first_active == Dlsn(SEGMENTS, 0, 0)
    assert got == written[: len(got)]
    assert len(got) < 20 * (SEGMENTS - 1)
    await reader.aclose()


# --- SegmentsAhead alone ------------------------------------------------------------------------


class StubLedger:
    """A ledger whose ``read`` returns its first entry or raises ``error``.

    ``is_released`` is True after ``aclose``.
    """

    ledger_id = 7
    last_add_confirmed = 9

    def __init__(self, *, is_closed: bool = True, error: RhumblineError | None = None) -> None:
        self.is_closed = is_closed
        self.error = error
        self.is_released = False

    async def read(self, first: int, last: int, ahead_bytes: int = 0) -> Sequence[LedgerEntry]:
        assert (first, last) == (0, 9)
        await asyncio.sleep(1)
        if self.error is not None:
            raise self.error
        return [FakeEntry(0, b"first")]

    async def update_last_add_confirmed(self, fresh: bool) -> int:
        return self.last_add_confirmed

    async def wait(self, beyond: int, timeout_ms: int) -> Sequence[LedgerEntry]:
        raise AssertionError("a closed ledger")

    async def aclose(self) -> None:
        self.is_released = True


def ahead_of(stored: Segment | RhumblineError | None, ledger: StubLedger) -> SegmentsAhead:
    async def read_segment(lssn: int) -> Segment | None:
        assert lssn == 2
        await asyncio.sleep(1)
        if isinstance(stored, RhumblineError):
            raise stored
        return stored

    async def open_segment(segment: Segment) -> ReadableLedger:
        assert segment is stored
        await asyncio.sleep(1)
        return ledger

    return SegmentsAhead(read_segment, open_segment, "s")


@pytest.mark.parametrize("waited_s", [0, 1.5, 2.5, 5])
async def test_the_segment_is_handed_over_once(world: LogWorld, waited_s: float) -> None:
    ledger = StubLedger()
    ahead = ahead_of(COMPLETED, ledger)
    ahead.begin_after(BEFORE, 0, 10)
    await asyncio.sleep(waited_s)
    assert ahead.is_open(2) == (waited_s > 3)
    ahead.begin_after(BEFORE, 0, 10)
    assert await ahead.take(1) is None, "the reader has not left the segment before"
    assert await ahead.take(2) == OpenedSegment(COMPLETED, ledger, [FakeEntry(0, b"first")])
    assert not ahead.is_open(2)
    assert await ahead.take(2) is None
    await ahead.aclose()
    assert not ledger.is_released, "it belongs to whoever took it"


@pytest.mark.parametrize("waited_s", [0, 1.5, 5])
async def test_a_segment_is_opened_without_its_entries(world: LogWorld, waited_s: float) -> None:
    ledger = StubLedger(error=UnavailableError("it must not be read"))
    ahead = ahead_of(COMPLETED, ledger)
    ahead.begin_after(replace(BEFORE, length_bytes=1 << 20), 0, 0)
    await asyncio.sleep(waited_s)
    assert ahead.is_open(2) == (waited_s > 2)
    assert await ahead.take(2) == OpenedSegment(COMPLETED, ledger, ())
    await ahead.aclose()
    assert not ledger.is_released


@pytest.mark.parametrize("waited_s", [0, 0.5, 1.5, 2.5, 5])
async def test_what_is_not_taken_is_closed(world: LogWorld, waited_s: float) -> None:
    ledger = StubLedger()
    ahead = ahead_of(COMPLETED, ledger)
    ahead.begin_after(BEFORE, 0, 10)
    await asyncio.sleep(waited_s)
    await ahead.aclose()
    await ahead.aclose()
    assert not ahead.is_open(2)
    assert ledger.is_released == (waited_s > 2)


async def test_a_wait_that_is_cancelled_loses_nothing(world: LogWorld) -> None:
    ahead = ahead_of(COMPLETED, StubLedger())
    ahead.begin_after(BEFORE, 0, 10)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await ahead.take(2)
    assert await ahead.take(2) is not None


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(None, id="does not exist"),
        pytest.param(OPEN, id="in progress"),
        pytest.param(replace(OPEN, is_completed=True), id="empty"),
        pytest.param(UnavailableError("injected"), id="unavailable"),
    ],
)
async def test_only_a_completed_segment_with_entries_is_opened(
    world: LogWorld, stored: Segment | RhumblineError | None
) -> None:
    ledger = StubLedger()
    ahead = ahead_of(stored, ledger)
    ahead.begin_after(BEFORE, 0, 10)
    assert await ahead.take(2) is None
    assert not ahead.is_open(2)
    await ahead.aclose()
    assert not ledger.is_released, "it was not opened"


@pytest.mark.parametrize(
    "ledger",
    [
        pytest.param(StubLedger(is_closed=False), id="open in old metadata"),
        pytest.param(StubLedger(error=NoSuchLedgerError("injected")), id="deleted"),
        pytest.param(StubLedger(error=CorruptionError("injected")), id="damaged"),
    ],
)
async def test_a_ledger_whose_entries_cannot_be_read_is_closed(
    world: LogWorld, ledger: StubLedger
) -> None:
    ahead = ahead_of(COMPLETED, ledger)
    ahead.begin_after(BEFORE, 0, 10)
    assert await ahead.take(2) is None
    assert ledger.is_released
    ahead.begin_after(BEFORE, 0, 10)
    assert await ahead.take(2) is None, "no second attempt: the reader opens it itself"


def test_segments_are_opened_when_little_remains() -> None:
    assert segments_to_open(OPEN, 0, 10_000) == 0
    assert segments_to_open(replace(COMPLETED, ends_stream=True), 9, 10_000) == 0
    ahead = [999, 1000, 1999, 2000, 10_000]
    assert [segments_to_open(COMPLETED, 0, size) for size in ahead] == [0, 1, 1, 2, 8]
    assert [segments_to_open(COMPLETED, n, 300) for n in (0, 6, 7, 10)] == [0, 0, 1, 1]
    control_records_only = replace(COMPLETED, length_bytes=0, record_count=0)
    assert segments_to_open(control_records_only, 0, 100) == SEGMENTS_AHEAD_MAX
