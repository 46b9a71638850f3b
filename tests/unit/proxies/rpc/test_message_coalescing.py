"""Messages of a call leave less often the more is outstanding, and at once for who is alone."""

import asyncio

from rhumbline.proxies.rpc.message_coalescing import MessagePacer
from rhumbline.tests.support.fakes.jumping_loop import run_jumping


async def waits_ms(outstanding: int, messages: int) -> list[float]:
    """How long each of some messages waits that are wanted one after the other."""
    loop = asyncio.get_running_loop()
    pace, found = MessagePacer(), []
    await asyncio.sleep(1)
    for _ in range(messages):
        began = loop.time()
        await pace.wait(outstanding)
        found.append(round((loop.time() - began) * 1000, 3))
    return found


def test_who_awaits_each_record_alone_waits_for_nothing() -> None:
    assert run_jumping(waits_ms(1, 5)) == [0] * 5


def test_the_first_message_after_a_pause_leaves_at_once_and_others_gather() -> None:
    assert run_jumping(waits_ms(11, 4)) == [0, 2, 2, 2]


def test_nothing_waits_for_longer_than_four_milliseconds() -> None:
    assert run_jumping(waits_ms(100_000, 3)) == [0, 4, 4]
