"""Tests of truncation by the application: it hides records, and is taken back until a purge."""

import asyncio
from dataclasses import replace

import pytest

from rhumbline.core.log.metadata.stream_metadata import StreamRecord
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.dlsn import FIRST_DLSN, Dlsn
from rhumbline.core.protocol.errors import (
    InvalidArgumentError,
    MetadataUnavailableError,
    TruncatedError,
)
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld


async def test_truncated_records_stay_hidden(world: LogWorld) -> None:
    writer = await world.writer("s")
    results = [await writer.append(b"%d" % n) for n in range(5)]
    await writer.close()
    third = results[2].dlsn
    assert await world.namespace.truncate("s", third) == third
    assert await world.namespace.truncate("s", results[0].dlsn) == third
    reader = await world.namespace.open_reader("s", EARLIEST)
    assert (await anext(reader)).payload == b"2"
    await reader.aclose()
    with pytest.raises(TruncatedError):
        await world.namespace.open_reader("s", results[1].dlsn)


async def test_truncation_beyond_the_last_segment_is_refused(world: LogWorld) -> None:
    await (await world.writer("s")).close()
    with pytest.raises(InvalidArgumentError, match="has no segment 9; its last is 1"):
        await world.namespace.truncate("s", Dlsn(9, 0, 0))


# --- taking a truncation back -------------------------------------------------------------------

GRACE_MS = 1_000
SEGMENTS = 6


async def write_segments(world: LogWorld, policy: StreamPolicy | None = None) -> list[Dlsn]:
    """Write segments of two records each, all of them completed."""
    policy = policy or StreamPolicy(purge_grace_ms=GRACE_MS)
    dlsns = []
    for n in range(SEGMENTS):
        writer = await world.writer("s", policy)
        dlsns += [(await writer.append(b"%d" % (2 * n + m))).dlsn for m in range(2)]
        await writer.close()
    return dlsns


async def read_numbers(world: LogWorld, first: int) -> list[int]:
    """Return the numbers of all records from the start on; there are none below ``first``."""
    return [int(r.payload) for r in await world.read_all("s", 2 * SEGMENTS - first)]


async def test_untruncated_records_are_read_again(world: LogWorld) -> None:
    dlsns = await write_segments(world)
    await world.namespace.truncate("s", dlsns[7])
    assert await read_numbers(world, 7) == list(range(7, 12))
    assert await world.namespace.untruncate("s", dlsns[3]) == dlsns[3]
    assert await read_numbers(world, 3) == list(range(3, 12))
    assert await world.namespace.untruncate("s", dlsns[5]) == dlsns[3], "never forward"
    assert await world.namespace.untruncate("s") == FIRST_DLSN
    assert await read_numbers(world, 0) == list(range(12))
    world.clock.now_ms += 10 * GRACE_MS
    assert (await world.namespace.maintain("s")).purged == ()
    assert await read_numbers(world, 0) == list(range(12))


async def test_truncation_can_be_taken_back_until_its_grace_ends(world: LogWorld) -> None:
    await write_segments(world)
    await world.namespace.truncate("s", Dlsn(4, 0, 0))
    world.clock.now_ms += GRACE_MS - 1
    assert (await world.namespace.maintain("s")).purged == ()
    assert await world.namespace.untruncate("s", Dlsn(2, 0, 0)) == Dlsn(2, 0, 0)
    world.clock.now_ms += 1
    assert (await world.namespace.maintain("s")).purged == (1,), "it stayed truncated"
    with pytest.raises(TruncatedError, match="what is below 2:0:0 was purged") as failure:
        await world.namespace.untruncate("s", Dlsn(1, 0, 0))
    assert failure.value.first_active == Dlsn(2, 0, 0)
    assert await world.namespace.untruncate("s") == Dlsn(2, 0, 0)
    assert await read_numbers(world, 2) == list(range(2, 12))


async def test_second_truncation_has_a_grace_period_of_its_own(world: LogWorld) -> None:
    await write_segments(world)
    await world.namespace.truncate("s", Dlsn(4, 0, 0))
    world.clock.now_ms += GRACE_MS - 1
    await world.namespace.untruncate("s")
    await world.namespace.truncate("s", Dlsn(4, 0, 0))
    world.clock.now_ms += GRACE_MS - 1
    assert (await world.namespace.maintain("s")).purged == ()
    world.clock.now_ms += 1
    assert (await world.namespace.maintain("s")).purged == (1, 2, 3)


async def test_second_truncation_waits_for_the_grace_of_the_first(world: LogWorld) -> None:
    await write_segments(world)
    await world.namespace.truncate("s", Dlsn(2, 0, 0))
    world.clock.now_ms += GRACE_MS // 2
    await world.namespace.truncate("s", Dlsn(4, 0, 0))
    world.clock.now_ms += GRACE_MS // 2
    assert (await world.namespace.maintain("s")).purged == (1,)
    world.clock.now_ms += GRACE_MS - 1
    assert (await world.namespace.maintain("s")).purged == ()
    world.clock.now_ms += 1
    assert (await world.namespace.maintain("s")).purged == (2, 3)


async def test_untruncation_never_reaches_into_a_purge_that_began(world: LogWorld) -> None:
    """A purge that stopped half-way is continued; what it deletes can no longer come back."""
    await write_segments(world)
    await world.namespace.truncate("s", Dlsn(5, 0, 0))
    world.clock.now_ms += GRACE_MS
    delete = world.namespace._ledgers.delete

    async def failing(ledger_id: int) -> None:
        if ledger_id == 3:
            raise MetadataUnavailableError("the store is gone")
        await delete(ledger_id)

    world.namespace._ledgers.delete = failing  # type: ignore[method-assign]
    with pytest.raises(MetadataUnavailableError):
        await world.namespace.maintain("s")
    assert sorted(world.ledgers.ledgers) == [3, 4, 5, 6]
    with pytest.raises(TruncatedError):
        await world.namespace.untruncate("s", Dlsn(4, 0, 0))
    assert await world.namespace.untruncate("s") == Dlsn(5, 0, 0)
    world.namespace._ledgers.delete = delete  # type: ignore[method-assign]
    assert (await world.namespace.maintain("s")).purged == (1, 2, 3, 4)
    assert sorted(world.ledgers.ledgers) == [5, 6]
    assert await read_numbers(world, 8) == list(range(8, 12))


async def test_pass_that_was_overtaken_by_an_untruncation_purges_nothing(world: LogWorld) -> None:
    """The pass has read that the grace period ended before the truncation is taken back."""
    await write_segments(world)
    await world.namespace.truncate("s", Dlsn(4, 0, 0))
    world.clock.now_ms += GRACE_MS
    other = world.open_namespace()
    head = other._streams.head

    async def overtaken(stream: str, stream_id: str) -> object:
        await world.namespace.untruncate("s")
        return await head(stream, stream_id)

    other._streams.head = overtaken  # type: ignore[method-assign,assignment]
    assert (await other.maintain("s")).purged == ()
    assert sorted(world.ledgers.ledgers) == [1, 2, 3, 4, 5, 6]
    assert await read_numbers(world, 0) == list(range(12))


async def test_pass_does_not_repeat_a_truncation_that_was_taken_back(world: LogWorld) -> None:
    policy = StreamPolicy(truncates_by_subscriptions=True, purge_grace_ms=GRACE_MS)
    await write_segments(world, policy)
    await world.namespace.truncate("s", Dlsn(4, 0, 0))
    other = world.open_namespace()
    slowest = other.subscriptions.slowest

    async def overtaken(stream: str) -> Dlsn | None:
        await world.namespace.untruncate("s")
        return await slowest(stream)

    other.subscriptions.slowest = overtaken  # type: ignore[method-assign]
    assert (await other.maintain("s")).start == Dlsn(4, 0, 0), "as it was read"
    assert await read_numbers(world, 0) == list(range(12))


async def test_untruncation_that_the_policy_would_undo_is_refused(world: LogWorld) -> None:
    policy = StreamPolicy(retention_ms=GRACE_MS, purge_grace_ms=10 * GRACE_MS)
    await write_segments(world, policy)
    world.clock.now_ms += GRACE_MS
    assert (await world.namespace.maintain("s")).start == Dlsn(SEGMENTS + 1, 0, 0)
    with pytest.raises(InvalidArgumentError, match="older than retention_ms=1000"):
        await world.namespace.untruncate("s")
    kept = replace(policy, retention_ms=None, truncates_by_subscriptions=True)
    await world.namespace.set_stream_policy("s", kept)
    await world.namespace.subscriptions.create("s", "app", Dlsn(3, 0, 0))
    with pytest.raises(InvalidArgumentError, match="subscriptions are at 3:0:0"):
        await world.namespace.untruncate("s")
    assert await world.namespace.untruncate("s", Dlsn(3, 0, 0)) == Dlsn(3, 0, 0)
    assert await read_numbers(world, 4) == list(range(4, 12))


async def test_reader_continues_while_records_below_it_come_back(world: LogWorld) -> None:
    dlsns = await write_segments(world)
    await world.namespace.truncate("s", dlsns[6])
    async with await world.namespace.open_reader("s", EARLIEST) as reader:
        assert int((await anext(reader)).payload) == 6
        await world.namespace.untruncate("s")
        rest = [int((await asyncio.wait_for(anext(reader), 60)).payload) for _ in range(5)]
        assert rest == [7, 8, 9, 10, 11]


def test_a_purge_in_progress_is_stored_in_the_record() -> None:
    record = StreamRecord("id", 5, None, start=Dlsn(9, 0, 0), marked_lssn=8, marked_ms=70)
    assert b"purging_lssn" not in record.encode(), "older versions can read it"
    purging = record.purging(6)
    assert StreamRecord.decode("s", purging.encode()) == purging
    assert StreamRecord.decode("s", purging.purged(6).encode()) == purging.purged(6)
    assert (purging.oldest, purging.purged(6).oldest) == (Dlsn(6, 0, 0), Dlsn(6, 0, 0))
    with pytest.raises(AssertionError):
        purging.untruncated(Dlsn(5, 0, 0))
    with pytest.raises(AssertionError):
        record.purging(9)
