"""The search over the names of streams finds parts of names, in pages, and hides what is denied."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

from rhumbline.cli.console.streams.stream_names import NameIndex, StreamName, StreamNames
from rhumbline.client.connect import Client
from rhumbline.tests.support.fakes.turns import counted_turns

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
    async with counted_turns() as turns:
        await NameIndex(NAMES).find("", 0, 25, lambda _: False)
        assert turns.count >= 9


class Listing:
    """A client whose only namespace has 100,000 streams; it counts how often they are listed."""

    name = "shop"

    def __init__(self) -> None:
        self.namespaces = self
        self.pages = 0
        self._names = [f"orders-{n:06}" for n in range(100_000)]

    async def all(self) -> AsyncIterator[tuple[str, None]]:
        yield self.name, None

    async def find(self, _: str) -> None:
        return None

    def namespace_of(self, *_: object) -> "Listing":
        return self

    async def streams(self, *, after: str | None, limit: int) -> list[str]:
        self.pages += 1
        await asyncio.sleep(0)
        return [name for name in self._names if after is None or name > after][:limit]


async def found_by(names: StreamNames, wanted: str) -> list[StreamName]:
    return (await names.page(wanted, 0, 25, everyone)).names


async def test_many_names_are_read_in_few_pages() -> None:
    """They were read in pages of 1,000: a hundred round trips, and quadratic in ZooKeeper."""
    client = Listing()
    names = StreamNames(cast("Client", cast("Any", client)))
    assert await found_by(names, "099999") == [StreamName("shop", "orders-099999")]
    assert client.pages <= 3
    await names.aclose()


async def test_the_first_search_uses_a_reading_that_began_before_it() -> None:
    client = Listing()
    names = StreamNames(cast("Client", cast("Any", client)))
    names.refresh()
    names.refresh()  # one is in progress
    await asyncio.sleep(0)
    found = await asyncio.gather(found_by(names, "000007"), found_by(names, "000008"))
    assert [[str(one) for one in some] for some in found] == [
        ["shop/orders-000007"], ["shop/orders-000008"],
    ]  # fmt: skip
    assert client.pages <= 3
    await names.aclose()
