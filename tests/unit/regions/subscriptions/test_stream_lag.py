"""The lag of a subscription is counted in readable records, and in the age of the oldest."""

from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.regions.subscriptions.stream_lag import (
    NO_LAG,
    UNKNOWN_LAG,
    Lag,
    StreamCount,
    count_records,
    lag_of,
    read_positions,
    slowest_lag,
)
from rhumbline.tests.support.fakes.log_world import LogWorld


async def lags(world: LogWorld, stream: str) -> dict[str, Lag]:
    count = await count_records(world.namespace, stream)
    assert count is not None
    return {
        name: await lag_of(world.namespace, stream, position, count)
        for name, position in await read_positions(world.namespace, stream)
    }


async def test_lag_is_counted_across_segments_and_in_the_open_one(world: LogWorld) -> None:
    positions = []
    for _ in range(2):
        writer = await world.writer("s")
        positions += [(await writer.append(b"%d" % n)).dlsn for n in range(3)]
        world.clock.now_ms += 1_000
        await writer.close()
    writer = await world.writer("s")
    positions.append((await writer.append(b"last")).dlsn)
    count = await count_records(world.namespace, "s")
    assert count is not None and count.records == 7
    subscriptions = world.namespace.subscriptions
    await subscriptions.create("s", "first", positions[0])
    await subscriptions.create("s", "second", positions[4])
    await subscriptions.create("s", "done", count.position)
    began = world.clock.now_ms - 2_000
    assert await lags(world, "s") == {
        "first": Lag(7, began),
        "second": Lag(3, began + 1_000),
        "done": NO_LAG,
    }
    assert Lag(7, began).behind_ms(world.clock.now_ms) == 2_000
    assert await slowest_lag(world.namespace, "s", count) == 7
    await writer.close()


async def test_control_records_are_no_lag(world: LogWorld) -> None:
    writer = await world.writer("s")
    position = (await writer.append(b"x")).dlsn
    await writer.close()
    await (await world.writer("s")).close()  # a segment without data records
    after = Dlsn(position.lssn, position.entry_id + 1, 0)
    end = Dlsn(position.lssn + 1, 0, 0)
    assert await lag_of(world.namespace, "s", after, StreamCount(end, 1)) == NO_LAG


async def test_lag_of_a_truncated_position_counts_what_is_readable(world: LogWorld) -> None:
    for n in range(3):
        writer = await world.writer("s")
        await writer.append(b"%d" % n)
        await writer.close()
    await world.namespace.subscriptions.create("s", "old", Dlsn(1, 0, 0))
    await world.namespace.truncate("s", Dlsn(3, 0, 0))
    assert (await lags(world, "s"))["old"].records == 1


async def test_lag_is_unknown_if_the_stream_cannot_be_read(world: LogWorld) -> None:
    assert await count_records(world.namespace, "none") is None
    assert await lag_of(world.namespace, "none", Dlsn(1, 0, 0), StreamCount(Dlsn(2, 0, 0), 9)) == (
        UNKNOWN_LAG
    )
    assert UNKNOWN_LAG.behind_ms(5) is None
