"""The lag of a subscription is counted in readable records, and in the age of the oldest."""

import pytest

from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import MetadataUnavailableError
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
from rhumbline.tests.support.fakes.region_world import RegionWorld, in_region


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


@in_region
async def test_lag_is_unknown_without_the_metadata_store(world: RegionWorld) -> None:
    """It was measured up to an old end: a subscription that is behind seemed to be at the end."""
    namespace = world.reader_namespace
    count = await count_records(namespace, "s")
    assert count is not None
    await namespace.subscriptions.create("s", "reports", count.position)
    world.regional.cut_off()
    await world.write(b"3")
    assert await count_records(namespace, "s") is None
    assert await slowest_lag(namespace, "s", count) is None
    with pytest.raises(MetadataUnavailableError):
        await read_positions(namespace, "s")


async def test_a_subscription_that_is_deleted_meanwhile_does_not_hide_the_others(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await world.writer("s")).close()
    subscriptions = world.namespace.subscriptions
    for name in ("first", "second"):
        await subscriptions.create("s", name, Dlsn(1, 0, 0))
    list_names = subscriptions.names

    async def list_and_delete(stream: str, *, limit: int) -> list[str]:
        found = await list_names(stream, limit=limit)
        await subscriptions.delete(stream, "first")
        return found

    monkeypatch.setattr(subscriptions, "names", list_and_delete)
    assert [name for name, _ in await read_positions(world.namespace, "s")] == ["second"]
