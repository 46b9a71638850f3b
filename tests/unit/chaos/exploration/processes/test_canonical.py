"""Canonical forms: equal for equal states, different if a decision could differ."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from rhumbline.chaos.exploration.processes.canonical import digest
from rhumbline.core.protocol.quorum import Quorum, QuorumView


class Node:
    """An object with a reference that may form a cycle."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.other: Node | None = None


def pair(first: str, second: str) -> Node:
    node, other = Node(first), Node(second)
    node.other, other.other = other, node
    return node


def test_cycles_and_equal_contents_have_equal_forms() -> None:
    assert digest(pair("a", "b")) == digest(pair("a", "b"))
    assert digest(pair("a", "b")) != digest(pair("a", "c"))


def test_callbacks_differ_by_what_they_refer_to() -> None:
    def make(number: int) -> object:
        return lambda: number

    assert digest(make(1)) == digest(make(1))
    assert digest(make(1)) != digest(make(2))
    assert digest(partial(len, "a")) != digest(partial(len, "b"))


def test_suspended_coroutines_differ_by_their_variables() -> None:
    async def work(value: int, waits: "asyncio.Future[None]") -> None:
        await waits
        assert value

    def started(value: int) -> Coroutine[Any, Any, None]:
        loop = asyncio.new_event_loop()
        waits: asyncio.Future[None] = loop.create_future()
        loop.close()
        coroutine = work(value, waits)
        coroutine.send(None)
        return coroutine

    first, equal, other = started(1), started(1), started(2)
    assert digest(first) == digest(equal) != digest(other)
    for coroutine in (first, equal, other):
        coroutine.close()


def test_quorum_views_are_compared_by_value() -> None:
    views = [QuorumView(Quorum(2, 2, 2), ["a", "b"]) for _ in range(2)]
    views[0].is_acked(1)  # fills a cache, which decides nothing
    assert digest(views[0]) == digest(views[1])
