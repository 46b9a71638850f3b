"""A use of a ledger needs the grants of its stream, all of them, and the reason is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product

import pytest

from rhumbline.access.access_control import AccessControl
from rhumbline.access.grant_store import change_grants
from rhumbline.access.ledger_access import ACTIONS, LedgerAccess
from rhumbline.backends.memory import MemoryStore
from rhumbline.core.bookie.permissions.ledger_owners import LedgerOwner
from rhumbline.core.bookie.permissions.ledger_uses import LedgerUse
from rhumbline.core.protocol.errors import PermissionDeniedError, UnavailableError
from rhumbline.security.caller import Caller
from rhumbline.security.grants import Action, make_grant
from rhumbline.security.principal import Principal
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)

MINE, OTHERS, NONE = LedgerOwner("n", "mine-1"), LedgerOwner("n", "others"), LedgerOwner()
APP = Caller(Principal("app"))


@asynccontextmanager
async def granted(*actions: Action, resource: str) -> AsyncIterator[LedgerAccess]:
    """Yield the permissions of an application with one grant."""
    store = MemoryStore()
    if actions:
        grant = make_grant("app", actions, resource)
        await change_grants(store, lambda table: table.granted(grant))
    control = AccessControl(store, refresh_ms=1_000, stale_ms_max=5_000)
    await control.start()
    try:
        yield LedgerAccess(control, APP)
    finally:
        await control.aclose()


@pytest.mark.parametrize(
    "actions",
    [(), (Action.APPEND,), (Action.READ,), (Action.APPEND, Action.READ), (Action.ADMINISTER,)],
)
async def test_each_use_needs_all_its_actions_on_the_stream(actions: tuple[Action, ...]) -> None:
    async with granted(*actions, resource="stream:n/mine-*") as access:
        for use, owner in product(LedgerUse, (MINE, OTHERS, NONE)):
            is_allowed = owner is MINE and set(ACTIONS[use]) <= set(actions)
            refusal = access.refusal(use, owner)
            assert (refusal is None) == is_allowed, (use, owner)
            assert refusal is None or isinstance(refusal, PermissionDeniedError)


async def test_ledgers_of_no_stream_belong_to_the_cluster() -> None:
    async with granted(Action.READ, resource="cluster") as access:
        assert access.refusal(LedgerUse.READ, NONE) is None
        assert access.refusal(LedgerUse.READ, OTHERS) is None
        assert "append" in str(access.refusal(LedgerUse.FENCE, NONE))


async def test_without_grants_that_were_read_lately_nothing_is_allowed() -> None:
    control = AccessControl(MemoryStore(), refresh_ms=1_000, stale_ms_max=5_000)
    access = LedgerAccess(control, APP)
    assert not access.is_current
    assert isinstance(access.refusal(LedgerUse.READ, MINE), UnavailableError)
    await control.aclose()
