"""A call that holds a member of a group holds a limited number of messages."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.protobuf.message import Message

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.log.metadata.paths import TopicPaths
from rhumbline.core.runtime.primitives.wakeup import Wakeup
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.topics import group_call
from rhumbline.proxies.topics.group_call import GroupCall

COUNT = 1_000


async def no_check(*_: object) -> None:
    pass


async def test_client_that_does_not_read_its_responses_is_not_served_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_call, "open_topic", no_check)
    store, gate, is_over = MemoryStore(), asyncio.Event(), asyncio.Event()
    taken, sent = list[int](), list[int]()

    async def requests() -> AsyncIterator[pb.GroupRequest]:
        for number in range(1, COUNT + 1):
            taken.append(number)
            yield pb.GroupRequest(id=number, list="")
        await is_over.wait()

    async def send(message: Message | bytes) -> None:
        response = cast("pb.GroupResponse", message)
        if response.id:
            await gate.wait()
            sent.append(response.id)
            if len(sent) == COUNT:
                is_over.set()

    call = GroupCall(lambda _: cast(Any, SimpleNamespace(store=store)), Wakeup())
    first = pb.GroupRequest(namespace="default", topic="orders", group="billing")
    serving = asyncio.get_running_loop().create_task(
        call.serve(first, requests(), send, lambda: None)
    )
    for _ in range(5_000):
        await asyncio.sleep(0)
    assert 64 < len(taken) < 300
    gate.set()
    await serving
    assert sent == taken == list(range(1, COUNT + 1))
    await store.close()


@pytest.mark.parametrize("turns", range(12))
async def test_session_ends_with_the_call_whenever_the_call_is_cancelled(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed client ends its requests, and a moment later gRPC cancels the call."""
    monkeypatch.setattr(group_call, "open_topic", no_check)
    store, is_killed = MemoryStore(), asyncio.Event()
    sent = asyncio.Queue[Message | bytes]()

    async def requests() -> AsyncIterator[pb.GroupRequest]:
        node = pb.GroupNode(path="members/one", is_ephemeral=True)
        yield pb.GroupRequest(id=2, create=node)
        await is_killed.wait()

    call = GroupCall(lambda _: cast(Any, SimpleNamespace(store=store)), Wakeup())
    first = pb.GroupRequest(
        id=1, namespace="default", topic="orders", group="billing", session_ttl_ms=3_000
    )
    serving = asyncio.get_running_loop().create_task(
        call.serve(first, requests(), sent.put, lambda: None)
    )
    members = TopicPaths("default", "orders").members("billing")
    await store.create(members)
    for _ in range(100):
        await asyncio.sleep(0)
    assert await store.children(members) == ["one"]
    is_killed.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert await store.children(members) == []
    await store.close()
