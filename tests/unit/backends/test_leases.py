"""Tests of leases: which expire, and when. Rows are in a dictionary, and time is virtual."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rhumbline.backends.leases import Lease, LeaseObservations, Leases, Owner
from rhumbline.core.protocol.errors import (
    InvalidArgumentError,
    MetadataUnavailableError,
    SessionLostError,
)
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

TTL_MS = 120


class Rows:
    """The shared rows; with `is_away` every call fails."""

    def __init__(self) -> None:
        self.rows: dict[Owner, Lease] = {}
        self.is_away = False
        self.ended: list[Owner] = []
        self.emptied = asyncio.Event()

    def view(self) -> "View":
        return View(self)


class View:
    """The view of one process on the rows; with `is_cut` its calls fail."""

    def __init__(self, shared: Rows) -> None:
        self.shared = shared
        self.is_cut = False

    def check(self) -> None:
        if self.is_cut or self.shared.is_away:
            raise MetadataUnavailableError("away")

    async def add_lease(self, owner: Owner, ttl_ms: int) -> None:
        self.check()
        self.shared.rows.setdefault(owner, Lease(ttl_ms, 0))

    async def renew_lease(self, owner: Owner) -> bool:
        self.check()
        row = self.shared.rows.get(owner)
        if row is not None:
            self.shared.rows[owner] = row._replace(counter=row.counter + 1)
        return row is not None

    async def leases(self) -> dict[Owner, Lease]:
        self.check()
        return dict(self.shared.rows)

    async def end_lease(self, owner: Owner, counter: int | None) -> None:
        self.check()
        row = self.shared.rows.get(owner)
        if row is not None and counter in (None, row.counter):
            del self.shared.rows[owner]
            self.shared.ended.append(owner)
            if not self.shared.rows:
                self.shared.emptied.set()


def with_two(body: Callable[[Rows, View, Leases, Leases], Awaitable[None]]) -> None:
    """Run `body` with an owner, whose view can be cut off, and an observer."""

    async def run() -> None:
        rows = Rows()
        view = rows.view()
        counter = iter(range(100))
        owner = Leases(view, lambda: Owner(f"o{next(counter)}"))
        observer = Leases(rows.view(), lambda: Owner("unused"))
        observer.start()
        try:
            await body(rows, view, owner, observer)
        finally:
            await owner.aclose()
            await observer.aclose()

    run_jumping(run())


def test_a_renewed_lease_never_expires() -> None:
    async def body(rows: Rows, view: View, owner: Leases, observer: Leases) -> None:
        session = await owner.open(TTL_MS)
        await asyncio.sleep(TTL_MS * 4 / 1000)
        assert not session.is_lost and list(rows.rows) == [session.owner]

    with_two(body)


def test_a_lease_expires_without_renewals_and_its_owner_learns_of_it() -> None:
    async def body(rows: Rows, view: View, owner: Leases, observer: Leases) -> None:
        session = await owner.open(TTL_MS)
        lost = asyncio.Event()
        session.on_lost(lost.set)
        loop = asyncio.get_running_loop()
        view.is_cut = True
        started = loop.time()
        await rows.emptied.wait()
        assert loop.time() - started > TTL_MS / 1000 * 0.6
        assert not session.is_lost, "the owner cannot know yet"
        view.is_cut = False
        await lost.wait()
        with pytest.raises(SessionLostError):
            owner.own_session(session)

    with_two(body)


def test_an_outage_of_the_store_does_not_end_sessions() -> None:
    async def body(rows: Rows, view: View, owner: Leases, observer: Leases) -> None:
        session = await owner.open(TTL_MS)
        await asyncio.sleep(TTL_MS / 1000)
        rows.is_away = True
        await asyncio.sleep(TTL_MS * 3 / 1000)
        rows.is_away = False
        await asyncio.sleep(TTL_MS * 2 / 1000)
        assert not session.is_lost and rows.ended == []

    with_two(body)


def test_an_observer_that_was_stopped_expires_no_lease_at_once() -> None:
    observations = LeaseObservations()
    row = {Owner("o"): Lease(100, 7)}
    assert observations.find_expired(row, requested_s=0.0, received_s=0.0) == []
    assert observations.find_expired(row, requested_s=9.0, received_s=9.0) == []
    for attempt in range(2):
        assert (
            observations.find_expired(row, requested_s=9.0 + attempt, received_s=9.0 + attempt)
            == []
        )
    assert observations.find_expired(row, requested_s=12.0, received_s=12.0) == ["o"]
    assert (
        observations.find_expired({Owner("o"): Lease(100, 8)}, requested_s=13.0, received_s=13.0)
        == []
    )


def test_a_ttl_below_the_limit_is_refused() -> None:
    async def body(rows: Rows, view: View, owner: Leases, observer: Leases) -> None:
        with pytest.raises(InvalidArgumentError):
            await owner.open(10)
        assert rows.rows == {}

    with_two(body)
