"""Tests that idle streams cost no task, no timer and no watch, even if a process has many."""

import asyncio

from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld

STREAMS = 500


async def test_idle_writers_and_readers_hold_no_task_and_no_timer(world: LogWorld) -> None:
    loop = asyncio.get_running_loop()
    tasks_before = len(asyncio.all_tasks())
    timers_before = len(loop._scheduled)  # type: ignore[attr-defined]
    writers = [await world.writer(f"s{n}") for n in range(STREAMS)]
    for writer in writers:
        await writer.append(b"one")
    readers = [await world.namespace.open_reader(f"s{n}", EARLIEST) for n in range(STREAMS)]
    for reader in readers:
        assert (await anext(reader)).payload == b"one"
    await asyncio.sleep(10)
    assert len(asyncio.all_tasks()) == tasks_before
    timers = len(loop._scheduled)  # type: ignore[attr-defined]
    assert timers <= timers_before + 1, "all writers share one timer"
    assert not world.store.open_watches
    for part in readers:
        await part.aclose()
    for writer in writers:
        await writer.close()


async def test_listing_by_prefix_in_pages(world: LogWorld) -> None:
    names = [f"{kind}-{n:03d}" for kind in ("a", "ab", "b", "b0", "z") for n in range(20)]
    for name in names:
        await world.namespace.create_stream(name)
    assert await world.namespace.streams() == sorted(names)
    for prefix in ("", "a", "a-", "ab", "b0-01", "z-019", "zz", "A"):
        expected = sorted(name for name in names if name.startswith(prefix))
        found: list[str] = []
        while True:
            after = found[-1] if found else None
            page = await world.namespace.streams(prefix, after=after, limit=7)
            assert len(page) <= 7
            found += page
            if len(page) < 7:
                break
        assert found == expected
