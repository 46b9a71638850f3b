"""An address with many connections makes room for others; idle connections are closed."""

import asyncio

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.server.limits.open_connections import (
    CLOSED_FOR_OTHERS,
    OpenConnections,
    close_idle_connections,
)
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.core.wire import v3
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, entry, one_bookie


class Connection:
    """A connection that records why it was closed."""

    def __init__(self, opened: OpenConnections, host: str) -> None:
        self.host = host
        self.idle_rounds = 0
        self.has_work = False
        self.closed_for = ""
        self._opened = opened
        self.is_open = opened.add(self)

    def close(self, reason: str) -> None:
        self.closed_for = reason
        self._opened.remove(self)


def test_the_busiest_address_loses_its_longest_idle_connection() -> None:
    opened = OpenConnections(5)
    attacker = [Connection(opened, "192.0.2.1") for _ in range(4)]
    other = Connection(opened, "192.0.2.2")
    other.idle_rounds = 9
    attacker[0].has_work = True
    attacker[0].idle_rounds = 5
    attacker[2].idle_rounds = 3
    late = Connection(opened, "192.0.2.3")
    assert late.is_open and len(opened) == 5
    assert [each.closed_for for each in attacker] == ["", "", CLOSED_FOR_OTHERS, ""]
    assert other.closed_for == ""
    assert list(opened) == [attacker[0], attacker[1], attacker[3], other, late]


def test_the_busiest_address_gets_no_further_connection() -> None:
    opened = OpenConnections(3)
    held = [Connection(opened, "192.0.2.1") for _ in range(3)]
    assert not Connection(opened, "192.0.2.1").is_open
    assert [each.closed_for for each in held] == ["", "", ""]
    assert Connection(opened, "192.0.2.2").is_open
    assert not Connection(opened, "192.0.2.2").is_open, "both would only take turns"
    assert not Connection(opened, "192.0.2.1").is_open


def test_connections_with_work_make_no_room() -> None:
    opened = OpenConnections(2)
    for _ in range(2):
        Connection(opened, "192.0.2.1").has_work = True
    assert not Connection(opened, "192.0.2.2").is_open
    assert len(opened) == 2


def test_nobody_is_admitted_without_room() -> None:
    opened = OpenConnections(0)
    assert not Connection(opened, "192.0.2.1").is_open
    assert len(opened) == 0


def test_a_connection_is_removed_once() -> None:
    opened = OpenConnections(2)
    first, second = (Connection(opened, "192.0.2.1") for _ in range(2))
    assert first in opened
    opened.remove(first)
    opened.remove(first)
    assert first not in opened and list(opened) == [second]


IDLE_MS = 1_000


class TimedConnection:
    """A connection that records when it is closed."""

    def __init__(self, *, has_work: bool = False) -> None:
        self.idle_rounds = 0
        self.has_work = has_work
        self.closed_ms: float | None = None
        self.reason = ""

    def close(self, reason: str) -> None:
        self.closed_ms = self.closed_ms or asyncio.get_running_loop().time() * 1000
        self.reason = reason


@pytest.mark.run_by(runner=run_jumping)
async def test_connection_is_closed_after_the_idle_time_unless_it_is_used() -> None:
    began_ms = asyncio.get_running_loop().time() * 1000
    idle, used, waiting = TimedConnection(), TimedConnection(), TimedConnection(has_work=True)
    tasks = Tasks()
    connections = {idle: None, used: None, waiting: None}
    tasks.spawn(close_idle_connections(connections, IDLE_MS), "close idle connections")
    for _ in range(10):
        await asyncio.sleep(0.3)
        used.idle_rounds = 0
    assert idle.reason == "idle"
    assert idle.closed_ms is not None
    assert IDLE_MS <= idle.closed_ms - began_ms <= 1.3 * IDLE_MS
    assert used.closed_ms is waiting.closed_ms is None
    waiting.has_work = False
    await asyncio.sleep(2)
    assert waiting.reason == used.reason == "idle"
    await tasks.aclose()


async def test_bookie_closes_idle_connections_and_keeps_those_with_waiting_polls() -> None:
    async with one_bookie(BookieConfig(connection_idle_ms=500)) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        polling = await Wire.connect(bookie)
        polling.send(v3.frame(v3.long_poll_request(1, 1, previous_lac=5, timeout_ms=60_000)))
        silent = await Wire.connect(bookie)
        assert await silent.is_closed()
        assert await wire.is_closed(), "it was used, but not lately"
        assert bookie.statistics()["closed"] == {"idle": 2}
        assert bookie.statistics()["parked_polls"] == 1
        again = await Wire.connect(bookie)
        for number in range(1, 8):
            assert await again.add(entry(1, number)) == Code.OK
        await polling.response3()
        assert await polling.is_closed()
        for one in (polling, silent, again):
            await one.aclose()
        another = await Wire.connect(bookie)
        assert await another.read(1, 0) == (Code.OK, entry(1, 0))
        await another.aclose()


async def test_zero_keeps_idle_connections_for_ever() -> None:
    async with one_bookie(BookieConfig(connection_idle_ms=0)) as (_, bookie, wire):
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert "close idle connections" not in names
        assert await wire.add(entry(1, 0)) == Code.OK
        assert bookie.statistics()["closed"] == {}
