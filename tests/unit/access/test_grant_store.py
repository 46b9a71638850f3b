"""Grants are stored in one value, whose concurrent changes are all kept."""

import asyncio

import pytest

from rhumbline.access.grant_store import change_grants, read_grants
from rhumbline.backends.memory import MemoryStore
from rhumbline.core.protocol.errors import LimitExceededError
from rhumbline.security.grant_table import GrantTable
from rhumbline.security.grants import Grant, make_grant
from rhumbline.tests.support.fakes.lossy_store import LATE, LOST_REPLY, LossyStore


def grant(number: int) -> Grant:
    """Return one of many grants."""
    return make_grant(f"app-{number}", ["read"], "namespace:a")


async def test_concurrent_changes_are_all_kept() -> None:
    store = MemoryStore()
    assert (await read_grants(store)).grants == ()
    await asyncio.gather(
        *(change_grants(store, lambda table, n=n: table.granted(grant(n))) for n in range(8))  # type: ignore[misc]
    )
    assert len((await read_grants(store)).grants) == 8


@pytest.mark.parametrize("outcome", [LOST_REPLY, LATE])
async def test_a_change_with_a_lost_reply_is_made_once(outcome: str) -> None:
    store = LossyStore(MemoryStore())
    await change_grants(store, lambda table: table.granted(grant(1)))
    store.outcomes = [outcome]
    after = await change_grants(store, lambda table: table.granted(grant(2)))
    assert (await read_grants(store)).grants == after.grants
    assert len(after.grants) == 2


async def test_a_change_without_effect_writes_nothing_and_too_many_grants_are_refused() -> None:
    store = LossyStore(MemoryStore())
    await change_grants(store, lambda table: table.granted(grant(1)))
    writes = store.writes
    await change_grants(store, lambda table: table.granted(grant(1)))
    assert store.writes == writes
    with pytest.raises(LimitExceededError):
        await change_grants(store, lambda _: GrantTable(map(grant, range(3_000))))
