"""Closing at the end of a block: the block's own error is raised, and nothing is hidden."""

import asyncio

import pytest

from rhumbline.core.log.close_at_exit import close_at_exit
from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.tests.support.fakes.jumping_loop import run_jumping


async def _fail() -> None:
    raise UnavailableError("no quorum")


def test_error_of_closing_is_raised_after_a_block_without_error() -> None:
    with pytest.raises(UnavailableError, match="no quorum"):
        run_jumping(close_at_exit(_fail, None))


@pytest.mark.parametrize("error", [ValueError("block"), asyncio.CancelledError()])
def test_error_of_closing_is_a_note_on_the_error_of_the_block(error: BaseException) -> None:
    run_jumping(close_at_exit(_fail, error))
    assert error.__notes__ == ["closing failed as well: UnavailableError: no quorum"]


def test_same_error_gets_no_note() -> None:
    error = UnavailableError("the writer failed")

    async def close() -> None:
        raise error

    run_jumping(close_at_exit(close, error))
    assert not hasattr(error, "__notes__")


@pytest.mark.run_by(runner=run_jumping)
async def test_cancellation_while_closing_is_raised() -> None:
    async def close() -> None:
        await asyncio.sleep(60)

    task = asyncio.create_task(close_at_exit(close, ValueError("block")))
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
