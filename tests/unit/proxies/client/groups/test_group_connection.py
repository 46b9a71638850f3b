"""A group connection whose proxy accepts nothing."""

import asyncio
import gc

import pytest
from google.protobuf.message import Message

from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.proxies.client.groups.group_connection import GroupConnection
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.tests.support.fakes.jumping_loop import run_jumping


class FullCall:
    """A call whose buffer is full, so that every write waits."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()

    async def write(self, _: Message) -> None:
        await self.is_over.wait()

    async def read(self) -> Message | None:
        await self.is_over.wait()
        return None

    def cancel(self) -> None:
        self.is_over.set()


@pytest.mark.run_by(runner=run_jumping)
async def test_request_that_is_cancelled_before_it_is_sent_leaves_no_error_behind() -> None:
    """Nobody retrieved the error of its future, which the event loop reported as a bug."""
    connection = GroupConnection(FullCall(), "proxy:1", 3_000, lambda: None)
    request = asyncio.create_task(connection.request(pb.GroupRequest(list="members")))
    await asyncio.sleep(0)
    request.cancel()
    await connection.aclose()
    with pytest.raises(asyncio.CancelledError):
        await request
    del request
    gc.collect()


@pytest.mark.run_by(runner=run_jumping)
async def test_request_that_cannot_be_sent_ends_in_time() -> None:
    connection = GroupConnection(FullCall(), "proxy:1", 3_000, lambda: None)
    with pytest.raises(UnavailableError, match="proxy:1 does not respond"):
        await connection.request(pb.GroupRequest(list="members"), 2.0)
    await connection.aclose()


@pytest.mark.run_by(runner=run_jumping)
async def test_session_whose_closing_is_cancelled_is_not_kept_alive() -> None:
    """The heartbeats went on, so the proxy kept the session of a member that had left."""
    call = FullCall()
    connection = GroupConnection(call, "proxy:1", 3_000, lambda: None)
    closing = asyncio.create_task(connection.close())
    await asyncio.sleep(0.5)
    assert not call.is_over.is_set()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert call.is_over.is_set()
    assert connection.is_lost
