"""Work never runs twice at once, and every request is followed by a whole run."""

import asyncio

import pytest

from rhumbline.core.runtime.primitives.single_flight import SingleFlight
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)


class SlowWork:
    """Work that takes a second."""

    def __init__(self) -> None:
        self.runs: list[tuple[float, float]] = []

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await asyncio.sleep(1)
        self.runs.append((begin, loop.time()))


async def test_requests_at_once_cause_one_run() -> None:
    work, tasks = SlowWork(), Tasks()
    flight = SingleFlight(tasks, work.run, "work")
    for _ in range(5):
        flight.request()
    await asyncio.sleep(10)
    assert work.runs == [(0, 1)]


async def test_requests_during_a_run_cause_one_more_after_it() -> None:
    work, tasks = SlowWork(), Tasks()
    flight = SingleFlight(tasks, work.run, "work")
    flight.request()
    await asyncio.sleep(0.5)
    flight.request()
    flight.request()
    await asyncio.sleep(10)
    assert work.runs == [(0, 1), (1, 2)]
    flight.request()
    await asyncio.sleep(10)
    assert work.runs[2:] == [(10.5, 11.5)]


async def test_closing_cancels_the_run() -> None:
    work, tasks = SlowWork(), Tasks()
    flight = SingleFlight(tasks, work.run, "work")
    flight.request()
    await asyncio.sleep(0.5)
    await flight.aclose()
    await flight.aclose()
    assert not work.runs
    await tasks.aclose()
    flight.request()
    await asyncio.sleep(10)
    assert not work.runs


async def test_failed_run_is_reported_to_the_owner_and_the_next_request_runs() -> None:
    errors: list[BaseException] = []
    results = [ValueError("first"), None]

    async def work() -> None:
        if (error := results.pop(0)) is not None:
            raise error

    flight = SingleFlight(Tasks(on_failure=errors.append), work, "work")
    flight.request()
    await asyncio.sleep(1)
    assert [str(error) for error in errors] == ["first"]
    flight.request()
    await asyncio.sleep(1)
    assert not results
