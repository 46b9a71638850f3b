"""Tasks of a killed process are closed without a trace, whatever they await in ``finally``."""

import asyncio
import gc
import inspect

from rhumbline.chaos.simulation.world.loop import end_quietly


async def pause() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(60)


async def work(depth: int) -> None:
    try:
        await (work(depth - 1) if depth else pause())
    finally:
        try:
            await pause()
        finally:
            await pause()


async def test_coroutines_that_await_in_finally_are_closed_with_what_they_await() -> None:
    """Python reported `coroutine ignored GeneratorExit` for an inner one, which fails a test."""
    task = asyncio.get_running_loop().create_task(work(3))
    await asyncio.sleep(0)
    end_quietly(task)
    assert inspect.getcoroutinestate(task.get_coro()) == inspect.CORO_CLOSED  # type: ignore[arg-type]
    gc.collect()
