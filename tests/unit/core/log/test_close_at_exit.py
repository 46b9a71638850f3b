"""Closing at the end of a block: the block's own error is raised, and nothing is hidden."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rhumbline.core.log.close_at_exit import CANCELLED_CLOSE_S_MAX, ClosesAtExit
from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)


class Closing(ClosesAtExit):
    def __init__(self, close: Callable[[], Awaitable[None]]) -> None:
        self._close = close

    async def _close_at_exit(self) -> None:
        await self._close()


async def _fail() -> None:
    raise UnavailableError("no quorum")


async def _end_block(close: Callable[[], Awaitable[None]], error: BaseException | None) -> None:
    async with Closing(close):
        if error is not None:
            raise error


async def test_block_gets_the_object_and_closes_it_once() -> None:
    closed = []

    async def close() -> None:
        closed.append(1)

    closing = Closing(close)
    async with closing as entered:
        assert entered is closing
        assert not closed
    assert closed == [1]


async def test_error_of_closing_is_raised_after_a_block_without_error() -> None:
    with pytest.raises(UnavailableError, match="no quorum"):
        await _end_block(_fail, None)


@pytest.mark.parametrize("error", [ValueError("block"), asyncio.CancelledError()])
async def test_error_of_closing_is_a_note_on_the_error_of_the_block(error: BaseException) -> None:
    with pytest.raises(type(error)):
        await _end_block(_fail, error)
    assert error.__notes__ == ["closing failed as well: UnavailableError: no quorum"]


async def test_same_error_gets_no_note() -> None:
    error = UnavailableError("the writer failed")

    async def close() -> None:
        raise error

    with pytest.raises(UnavailableError):
        await _end_block(close, error)
    assert not hasattr(error, "__notes__")


async def test_cancellation_while_closing_is_raised() -> None:
    async def close() -> None:
        await asyncio.sleep(60)

    task = asyncio.create_task(_end_block(close, ValueError("block")))
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_time_out_of_a_block_is_not_delayed_by_closing() -> None:
    """A time-out of 1 s took two minutes while no bookie responded."""
    aborted = []

    class Slow(Closing):
        async def _abort_at_exit(self) -> None:
            aborted.append(1)

    began = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(1), Slow(lambda: asyncio.sleep(120)):
            await asyncio.sleep(60)
    assert asyncio.get_running_loop().time() - began == 1 + CANCELLED_CLOSE_S_MAX
    cancelled = caught.value.__context__  # before Python 3.11.3 it is not the cause
    assert cancelled is not None
    assert cancelled.__notes__ == ["closing was not finished after 2 s"]
    assert aborted == [1]


async def test_cancelled_block_closes_in_order_if_that_is_quick() -> None:
    closed = []

    async def close() -> None:
        await asyncio.sleep(1)
        closed.append(1)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1), Closing(close):
            await asyncio.sleep(60)
    assert closed == [1]


async def test_time_out_inside_of_closing_is_not_taken_for_that_of_the_block() -> None:
    async def close() -> None:
        raise TimeoutError("inside")

    error = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await _end_block(close, error)
    assert error.__notes__ == ["closing failed as well: TimeoutError: inside"]
