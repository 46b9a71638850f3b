"""``wait_until`` and ``list_when``: they return when the condition holds, and fail after a time."""

import asyncio

import pytest

from rhumbline.cli.waiting import list_when, wait_until
from rhumbline.core.protocol.errors import DeadlineExceededError


def test_result_of_the_first_check_that_satisfies_the_condition_is_returned() -> None:
    results = iter([1, 2, 3, 4])

    async def check() -> int:
        return next(results)

    waiting = wait_until(check, lambda n: n >= 3, timeout_ms=60_000, describe=str)
    assert asyncio.run(waiting) == 3


def test_timeout_is_reported_with_the_last_result() -> None:
    async def check() -> list[str]:
        return ["one"]

    waiting = list_when(check, 2, timeout_ms=150, things="proxies are up")
    with pytest.raises(DeadlineExceededError, match=r"^after 150.0 ms: 1 of 2 proxies are up$"):
        asyncio.run(waiting)


def test_list_without_a_count_is_returned_at_once() -> None:
    async def check() -> list[str]:
        return []

    assert asyncio.run(list_when(check, None, timeout_ms=0, things="proxies")) == []
