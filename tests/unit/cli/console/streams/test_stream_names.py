"""The search over the names of streams finds parts of names, in pages, and hides what is denied."""

import asyncio

from rhumbline.cli.console.streams.stream_names import NameIndex, StreamName

NAMES = sorted(StreamName("shop", f"orders-{n:05}") for n in range(10_000))
EXTRA = [*NAMES, StreamName("zoo", "Orders")]


def everyone(_: StreamName) -> bool:
    return True


async def test_pages_follow_each_other_without_gaps() -> None:
    first = await NameIndex(NAMES).find("", 0, 25, everyone)
    second = await NameIndex(NAMES).find("", 25, 25, everyone)
    assert [*first.names, *second.names] == NAMES[:50]
    assert first.has_more and first.total == 10_000
    last = await NameIndex(NAMES).find("", 9_990, 25, everyone)
    assert last.names == NAMES[9_990:] and not last.has_more


async def test_a_part_of_a_name_is_found_in_any_case() -> None:
    assert (await NameIndex(EXTRA).find("ORDERS-0999", 0, 25, everyone)).names == NAMES[9_990:]
    assert (await NameIndex(EXTRA).find("zoo/ord", 0, 25, everyone)).names == EXTRA[-1:]
    assert (await NameIndex(EXTRA).find("nothing", 0, 25, everyone)).names == []


async def test_streams_that_a_visitor_may_not_read_are_not_listed() -> None:
    found = await NameIndex(EXTRA).find("orders", 0, 25, lambda name: name.namespace == "zoo")
    assert found.names == EXTRA[-1:] and not found.has_more


async def test_a_long_search_leaves_room_for_other_requests() -> None:
    """The console answered nobody while it searched a million names for one visitor."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await NameIndex(NAMES).find("", 0, 25, lambda _: False)
    task.cancel()
    assert turns >= 9
