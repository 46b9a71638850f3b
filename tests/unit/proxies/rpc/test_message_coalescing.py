"""Messages of a call are delayed the more the more items are outstanding."""

import asyncio

from rhumbline.proxies.rpc.message_coalescing import MessageCoalescer, coalescing_ms
from rhumbline.tests.support.fakes.jumping_loop import run_jumping


async def waits_ms(
    outstanding: int, messages: int, records: int = 0, delay_ms_max: int = 4
) -> list[float]:
    """Return the delay in ms of each of some messages that are sent one after the other."""
    loop = asyncio.get_running_loop()
    coalescer, found = MessageCoalescer(), []
    await asyncio.sleep(1)
    for _ in range(messages):
        began = loop.time()
        while not await coalescer.wait(outstanding, records, delay_ms_max):
            pass
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


def test_records_of_a_stream_with_a_flush_period_wait_for_each_other() -> None:
    assert [coalescing_ms(flush_ms) for flush_ms in (0, 5, 10, 60_000, None)] == [4, 5, 10, 10, 10]
    assert run_jumping(waits_ms(1, 3, delay_ms_max=10)) == [0] * 3
    assert run_jumping(waits_ms(11, 3, delay_ms_max=10)) == [0, 5, 5]
    assert run_jumping(waits_ms(100, 3, delay_ms_max=10)) == [0, 10, 10]
    assert run_jumping(waits_ms(3, 3, records=100, delay_ms_max=10)) == [0, 2.6, 2.6]


def test_a_delay_becomes_shorter_when_an_impatient_producer_comes() -> None:
    async def message_at_ms() -> float:
        loop = asyncio.get_running_loop()
        coalescer = MessageCoalescer()
        await asyncio.sleep(1)
        assert await coalescer.wait(100, 0, 10)
        began = loop.time()
        assert not await coalescer.wait(100, 0, 10)
        assert await coalescer.wait(100, 0, 4)
        return round((loop.time() - began) * 1000, 3)

    assert run_jumping(message_at_ms()) == 4
