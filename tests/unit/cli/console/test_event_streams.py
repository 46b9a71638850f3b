"""Event streams are bounded, and give their place back however they end (rule CON-9)."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message, Receive, Send

from rhumbline.cli.console.event_streams import ABORT, EventStream, ServerEvent, StreamSlots
from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)
EVENT = ServerEvent("n", {"n": 1})


async def permitted() -> None:
    """Permit everything."""


async def connected() -> Message:
    """A browser that does not leave."""
    await asyncio.Event().wait()
    raise AssertionError


async def without_end() -> AsyncGenerator[ServerEvent]:
    while True:
        yield EVENT
        await asyncio.sleep(1)


def stream(slots: StreamSlots, send: Send, receive: Receive = connected) -> asyncio.Task[None]:
    """Serve an event stream."""
    response = EventStream(slots, without_end(), permitted)
    scope = {"type": "http", ABORT: lambda: None}
    return asyncio.create_task(response(scope, receive, send))


async def test_a_stream_without_a_place_is_refused_before_anything_is_sent() -> None:
    slots = StreamSlots(1, "1 page is open already")
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    first = stream(slots, send)
    await asyncio.sleep(2.5)
    assert slots.taken == 1 and len(sent) == 4
    sent.clear()
    with pytest.raises(UnavailableError, match="1 page is open"):
        await stream(slots, send)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert slots.taken == 0


async def test_a_browser_that_leaves_gives_its_place_back() -> None:
    slots = StreamSlots(1, "full")
    left = asyncio.Event()

    async def send(_: Message) -> None:
        return None

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    serving = stream(slots, send, receive)
    await asyncio.sleep(1)
    assert slots.taken == 1
    left.set()
    await serving
    assert slots.taken == 0


async def test_a_browser_that_does_not_read_is_disconnected() -> None:
    """It would hold its place, and what was sent to it, for as long as it is connected."""
    slots = StreamSlots(1, "full")
    aborted = asyncio.Event()
    first_event = b""

    async def send(message: Message) -> None:
        nonlocal first_event
        if first_event:
            await asyncio.Event().wait()
        first_event = message.get("body", b"")

    async def receive() -> Message:
        await aborted.wait()
        return {"type": "http.disconnect"}

    response = EventStream(slots, without_end(), permitted)
    async with asyncio.timeout(60):
        await response({"type": "http", ABORT: aborted.set}, receive, send)
    assert aborted.is_set() and slots.taken == 0
    assert first_event == b'event: n\ndata: {"n":1}\n\n'
