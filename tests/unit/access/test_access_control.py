"""Decisions follow the stored grants, and end when these cannot be read for too long."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from rhumbline.access.access_control import AccessControl
from rhumbline.access.grant_store import change_grants
from rhumbline.backends.memory import MemoryStore
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.protocol.errors import (
    MetadataUnavailableError,
    PermissionDeniedError,
    UnavailableError,
)
from rhumbline.core.runtime.metadata_store import Value, Watch
from rhumbline.security.caller import Caller
from rhumbline.security.grant_table import AccessDecision
from rhumbline.security.grants import Action, Grant, Resource, make_grant, stream_resource
from rhumbline.security.principal import Principal, Role
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.recorded_log import recorded_log

APP = Caller(Principal("app"))
ADMIN = Caller(Principal("ops", frozenset({Role.ADMIN})))
X = stream_resource("a", "x")
APPEND = (Action.APPEND,)
GRANT: Grant = make_grant("app", ["append"], "namespace:a")
REFRESH_MS, STALE_MS = 1_000, 5_000


class CutOffStore(MemoryStore):
    """A store whose reads fail while ``is_cut``, and which then tells nobody of changes."""

    is_cut = False

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """See MetadataStore."""
        if self.is_cut:
            raise MetadataUnavailableError("cut off")
        return await super().get(path, stale_ok=stale_ok)


class Recorder:
    """Remembers refusals."""

    def __init__(self) -> None:
        self.refusals: list[tuple[Caller, Action, Resource, str]] = []

    def refused(
        self, caller: Caller, action: Action, resource: Resource, decision: AccessDecision
    ) -> None:
        """See AccessObserver."""
        self.refusals.append((caller, action, resource, decision.reason))


@asynccontextmanager
async def followed(
    store: CutOffStore, recorder: Recorder | None = None
) -> AsyncIterator[AccessControl]:
    """Yield a control that follows the grants of a store."""
    control = AccessControl(store, refresh_ms=REFRESH_MS, stale_ms_max=STALE_MS, observer=recorder)
    await control.start()
    try:
        yield control
    finally:
        await control.aclose()


def may(control: AccessControl, caller: Caller = APP) -> bool:
    """Return whether the caller may append."""
    try:
        return control.decide(caller.principal, APPEND, X).is_allowed
    except UnavailableError:
        return False


@pytest.mark.run_by(runner=run_jumping)
async def test_a_change_is_followed_at_once_and_listeners_are_called() -> None:
    store = CutOffStore()
    async with followed(store) as control:
        calls: list[bool] = []

        def listener() -> None:
            calls.append(may(control))

        control.on_change(listener)
        assert not may(control)
        await change_grants(store, lambda table: table.granted(GRANT))
        await asyncio.sleep(0.01)
        assert may(control)
        await change_grants(store, lambda table: table.revoked(GRANT))
        await asyncio.sleep(0.01)
        assert not may(control)
        assert calls == [True, False]
        control.forget(listener)
        await change_grants(store, lambda table: table.granted(GRANT))
        await asyncio.sleep(0.01)
        assert calls == [True, False]


@pytest.mark.run_by(runner=run_jumping)
async def test_a_refusal_has_a_reason_and_is_reported_and_counted() -> None:
    recorder = Recorder()
    async with followed(CutOffStore(), recorder) as control:
        reason = "no grant allows app to append on stream:a/x"
        with pytest.raises(PermissionDeniedError, match=reason):
            control.check(APP, APPEND, X)
        control.check(ADMIN, APPEND, X)
        assert recorder.refusals == [(APP, Action.APPEND, X, reason)]
        found = control.statistics()
        assert found["refusals"]["append"] == 1
        assert found["refusals"]["read"] == 0


@pytest.mark.run_by(runner=run_jumping)
async def test_known_grants_hold_for_a_time_without_the_store_and_then_all_calls_are_refused() -> (
    None
):
    store = CutOffStore()
    await change_grants(store, lambda table: table.granted(GRANT))
    async with followed(store) as control:
        changes: list[bool] = []
        with recorded_log() as log:
            control.on_change(lambda: changes.append(may(control)))
            store.is_cut = True
            await asyncio.sleep((STALE_MS - REFRESH_MS) / 1000)
            assert may(control)
            await asyncio.sleep((REFRESH_MS + 10) / 1000)
            assert not may(control)
            assert changes == [False], "calls in progress are checked when the time is over"
            assert may(control, ADMIN)
            with pytest.raises(UnavailableError, match="too long"):
                control.check(APP, APPEND, X)
            store.is_cut = False
            await asyncio.sleep(REFRESH_MS / 1000)
            assert may(control)
            assert changes == [False, True]
        assert len(log.fields("grants not read")) == 1
        assert len(log.fields("grants read again")) == 1


@pytest.mark.run_by(runner=run_jumping)
async def test_a_lost_notification_costs_one_interval() -> None:
    class Deaf(CutOffStore):
        def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
            """See MetadataStore."""
            return super().watch(path, lambda: None, prefix=prefix)

    store = Deaf()
    async with followed(store) as control:
        await change_grants(store, lambda table: table.granted(GRANT))
        assert not may(control)
        await asyncio.sleep((REFRESH_MS + 10) / 1000)
        assert may(control)


@pytest.mark.run_by(runner=run_jumping)
async def test_before_the_first_read_and_with_damaged_grants_only_administrators_may() -> None:
    store = CutOffStore()
    await store.create(Paths().grants, b"not grants")
    with recorded_log() as log:
        async with followed(store) as control:
            assert not may(control)
            assert may(control, ADMIN)
            with pytest.raises(UnavailableError, match="could not read the grants yet"):
                control.check(APP, APPEND, X)
    assert len(log.fields("grants not read")) == 1
