"""Deadlines on the timer wheel expire in order and never early."""

import asyncio

import pytest

from rhumbline.core.bookie.server.timer_wheel import TimerWheel
from rhumbline.tests.support.fakes.jumping_loop import run_jumping


class Item:
    """A wheel entry that logs its expiry."""

    def __init__(self, log: list[str], name: str) -> None:
        self.tick = 0
        self._log = log
        self._name = name

    def expired(self) -> None:
        self._log.append(self._name)


@pytest.mark.run_by(runner=run_jumping)
async def test_entries_expire_in_order_and_never_early() -> None:
    log: list[str] = []
    wheel = TimerWheel(tick_ms=5)
    loop = asyncio.get_running_loop()
    start = loop.time()
    items = [Item(log, name) for name in "abcd"]
    for item, delay_ms in zip(items, (40, 10, 25, 30), strict=True):
        wheel.add(item, delay_ms)
    wheel.remove(items[3])
    wheel.remove(items[3])
    assert wheel.count == 3
    while len(log) < 3:
        await asyncio.sleep(0.002)
        assert loop.time() - start < 1
    assert log == ["b", "c", "a"]
    assert loop.time() - start >= 0.04
    assert wheel.count == 0
    wheel.add(items[3], 1)
    wheel.close()
    await asyncio.sleep(0.02)
    assert log == ["b", "c", "a"]


@pytest.mark.run_by(runner=run_jumping)
async def test_entry_expires_at_the_end_of_its_bucket() -> None:
    loop = asyncio.get_running_loop()
    expired_ms: dict[str, int] = {}

    class Timed(Item):
        def expired(self) -> None:
            assert self.tick == 0
            expired_ms[self._name] = round(loop.time() * 1000)

    wheel = TimerWheel()
    start = round(loop.time() * 100) * 10
    for name, delay_ms in (("late", 57), ("early", 20), ("same", 25), ("now", 0)):
        wheel.add(Timed([], name), delay_ms)
    assert wheel.count == 4
    await asyncio.sleep(0.2)
    assert {name: at - start for name, at in expired_ms.items()} == {
        "now": 10,
        "early": 30,
        "same": 30,
        "late": 60,
    }
    assert wheel.count == 0
    again = Timed([], "again")
    wheel.add(again, 10)
    assert again.tick > 0
    wheel.remove(again)
    assert (again.tick, wheel.count) == (0, 0)
    wheel.add(again, 10)
    await asyncio.sleep(0.1)
    assert "again" in expired_ms
    wheel.close()
    wheel.close()
