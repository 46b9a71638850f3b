"""Messages of a call are delayed the more the more items are outstanding."""

import asyncio

from rhumbline.proxies.rpc.message_coalescing import MessageCoalescer
from rhumbline.tests.support.fakes.jumping_loop import run_jumping


async def waits_ms(outstanding: int, messages: int, records: int = 0) -> list[float]:
    """Return the delay in ms of each of some messages that are sent one after the other."""
    loop = asyncio.get_running_loop()
    coalescer, found = MessageCoalescer(), []
    await asyncio.sleep(1)
    for _ in range(messages):
        began = loop.time()
        await coalescer.wait(outstanding, records)
        found.append(round((loop.time() - began) * 1000, 3))
    return found


def test_single_outstanding_item_is_not_delayed() -> None:
    assert run_jumping(waits_ms(1, 5)) == [0] * 5


def test_first_message_after_a_pause_is_not_delayed_and_later_ones_are() -> None:
    assert run_jumping(waits_ms(11, 4)) == [0, 2, 2, 2]


def test_no_message_is_delayed_by_more_than_four_milliseconds() -> None:
    assert run_jumping(waits_ms(100_000, 3)) == [0, 4, 4]


def test_items_with_many_records_are_delayed_more_and_a_single_one_is_not() -> None:
    assert run_jumping(waits_ms(1, 5, records=1_000)) == [0] * 5
    assert run_jumping(waits_ms(2, 3, records=1_000)) == [0, 1, 1]
    assert run_jumping(waits_ms(5, 3, records=1_000)) == [0, 4, 4]
    assert run_jumping(waits_ms(5, 3, records=11)) == [0, 2, 2]
