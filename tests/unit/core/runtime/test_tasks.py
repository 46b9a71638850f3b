"""Owned tasks: the owner sees each failure, and closing cancels in order and waits for all."""

import asyncio

import pytest

from rhumbline.core.runtime.tasks import Tasks, run_all, run_both, wait_until_done


async def fail(error: BaseException) -> None:
    raise error


async def forever(log: list[str], name: str) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        log.append(name)


async def test_the_owner_receives_the_exception_of_a_task() -> None:
    seen: list[BaseException] = []
    tasks = Tasks(on_failure=seen.append)
    error = ValueError("boom")
    await wait_until_done(tasks.spawn(fail(error), "fails"))
    assert seen == [error]
    assert len(tasks) == 0


async def test_without_an_owner_callback_the_loop_reports_it() -> None:
    reports: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reports.append(context["message"]))
    await wait_until_done(Tasks().spawn(fail(ValueError("boom")), "fails"))
    assert reports == ["task 'fails' failed"]


async def test_closing_cancels_newest_first_and_waits() -> None:
    log: list[str] = []
    tasks = Tasks()
    for name in ("first", "second", "third"):
        tasks.spawn(forever(log, name), name)
    await asyncio.sleep(0)
    await tasks.aclose()
    assert log == ["third", "second", "first"]
    with pytest.raises(RuntimeError, match="after its owner closed"):
        tasks.spawn(forever(log, "late"), "late")


async def test_closing_that_is_cancelled_still_cancels_all() -> None:
    log: list[str] = []

    async def slow(name: str) -> None:
        try:
            await forever(log, name)
        finally:
            await asyncio.sleep(0.05)

    tasks = Tasks()
    for name in ("first", "second", "third"):
        tasks.spawn(slow(name), name)
    await asyncio.sleep(0)
    closing = asyncio.create_task(tasks.aclose())
    await asyncio.sleep(0.01)
    assert log == ["third"]
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await asyncio.sleep(0)
    assert log == ["third", "second", "first"]
    await tasks.aclose()
    assert len(tasks) == 0


async def test_run_all_keeps_order_and_cancels_the_rest_on_failure() -> None:
    async def value(n: int) -> int:
        await asyncio.sleep(0)
        return n

    assert await run_all([value(n) for n in range(5)], "values") == [0, 1, 2, 3, 4]
    assert await run_both(value(5), asyncio.sleep(0, "slept"), "two types") == (5, "slept")
    log: list[str] = []
    with pytest.raises(ValueError, match="boom"):
        await run_all([forever(log, "a"), fail(ValueError("boom")), forever(log, "b")], "mixed")
    assert sorted(log) == ["a", "b"]


async def test_run_all_awaits_nothing_when_its_coroutine_is_closed() -> None:
    """The simulator closes the coroutines of a killed process in the same way."""
    log: list[str] = []
    dropped = run_all([forever(log, "a"), forever(log, "b")], "dropped")
    dropped.send(None)
    await asyncio.sleep(0)
    dropped.close()  # raised "coroutine ignored GeneratorExit"
