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
