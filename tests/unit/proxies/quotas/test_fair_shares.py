"""Principals that share a proxy: who waits, and when."""

import asyncio

import pytest

from rhumbline.proxies.quotas.fair_shares import ACTIVE_S, SMALL_SHARE_BYTES, FairShares
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)


async def waits(shares: FairShares, principal: str) -> bool:
    """Return whether a call of the principal would have to wait now."""
    task = asyncio.create_task(shares.room(principal))
    await asyncio.sleep(0)
    is_waiting = not task.done()
    task.cancel()
    await asyncio.sleep(0)
    return is_waiting


async def test_alone_a_principal_never_waits() -> None:
    shares = FairShares(100)
    shares.add("ada", 10_000)
    assert not await waits(shares, "ada")


async def test_beside_others_a_principal_waits_for_its_own_results() -> None:
    shares = FairShares(100)
    shares.add("bob", 1)
    shares.add("ada", 150)
    assert not await waits(shares, "bob")
    first, second = (asyncio.create_task(shares.room("ada")) for _ in range(2))
    await asyncio.sleep(0)
    assert not first.done() and not second.done()
    shares.remove("ada", 60)
    await asyncio.sleep(0)
    assert first.done() and not second.done()
    shares.remove("ada", 90)
    await asyncio.sleep(0)
    assert second.done()
    assert shares.waited_count >= 2


async def test_a_flood_beside_little_gets_less_than_beside_much() -> None:
    shares = FairShares(4 * SMALL_SHARE_BYTES)
    shares.add("bob", 100)
    shares.add("ada", SMALL_SHARE_BYTES + 1)
    assert await waits(shares, "ada")
    shares.add("bob", SMALL_SHARE_BYTES // 2)
    assert not await waits(shares, "ada")
    shares.add("ada", SMALL_SHARE_BYTES + 1_000)
    assert await waits(shares, "ada")
    shares.add("bob", 10 * SMALL_SHARE_BYTES)
    assert not await waits(shares, "ada")
    shares.add("ada", 2 * SMALL_SHARE_BYTES)
    assert await waits(shares, "ada"), "the highest limit"
    shares.remove("bob", 10 * SMALL_SHARE_BYTES)
    assert await waits(shares, "ada")
    await asyncio.sleep(ACTIVE_S * 1.1)
    shares.remove("ada", 2 * SMALL_SHARE_BYTES)
    assert not await waits(shares, "ada"), "what the other one has had within a second or two"
    shares.add("bob", 100)
    assert await waits(shares, "ada")


async def test_a_call_that_ends_while_it_is_woken_leaves_nobody_waiting() -> None:
    shares = FairShares(100)
    shares.add("bob", 1)
    shares.add("ada", 150)
    tasks = [asyncio.create_task(shares.room("ada")) for _ in range(3)]
    await asyncio.sleep(0)
    shares.remove("ada", 60)
    tasks[0].cancel()
    await asyncio.sleep(0)
    shares.remove("ada", 90)
    await asyncio.gather(*tasks[1:])


async def test_others_count_for_a_second_after_their_last_set() -> None:
    shares = FairShares(100)
    shares.add("bob", 1)
    shares.remove("bob", 1)
    shares.add("ada", 150)
    assert await waits(shares, "ada")
    await asyncio.sleep(ACTIVE_S * 1.1)
    assert not await waits(shares, "ada")
    shares.remove("ada", 150)
