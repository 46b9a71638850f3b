"""Segments of which bookies still hold copies are found: an erasure does not reach them."""

from rhumbline.coldstore.erase.hot_copies import segments_on_bookies
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)


async def test_a_segment_counts_until_its_ledger_is_deleted(world: LogWorld) -> None:
    await fill_stream(world)
    assert await segments_on_bookies(world.namespace) == {"s": [1, 2, 3, 4]}
    await archive_segments(world, DictColdStore(), upto=4)
    assert await segments_on_bookies(world.namespace, "s") == {"s": [1, 2, 3, 4]}
    world.clock.now_ms += 10_000
    await world.namespace.maintain("s")
    assert await segments_on_bookies(world.namespace) == {"s": [4]}
    writer = await world.writer("s")
    await writer.append(b"open")
    assert await segments_on_bookies(world.namespace) == {"s": [4, 5]}
    assert await segments_on_bookies(world.namespace, "deleted") == {}
    await writer.close()
