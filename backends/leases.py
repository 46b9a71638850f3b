"""Sessions for stores without native sessions: leases that need no synchronised clocks.

A session is a row (owner, TTL, counter) whose owner increments the counter three times per TTL.
Every process that has the store open also observes the rows. A row whose counter an observer saw
unchanged for a whole TTL, on its own monotonic clock, has expired; the observer removes it together
with its nodes in one transaction that is conditional on that counter. A renewal and a removal
therefore exclude each other in the store, whatever the clocks do. The state of the store decides:
an owner that was stopped for longer than its TTL keeps its session if no process observed it;
otherwise it learns of the loss from its next renewal.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, NewType, Protocol

from ..core.protocol.errors import (
    ClosedError,
    InvalidArgumentError,
    MetadataError,
    SessionLostError,
)
from ..core.runtime.metadata_store import Session
from ..core.runtime.tasks import Tasks
from .store_base import StoreSession

Owner = NewType("Owner", str)
"""The id of a lease."""

RENEWALS_PER_TTL = 3
OBSERVATIONS_PER_TTL = 8
OBSERVE_MS_MIN = 20
OBSERVE_MS_MAX = 500
TTL_MS_MIN = 50


class Lease(NamedTuple):
    """The stored lease of a session."""

    ttl_ms: int
    counter: int


class _Observation(NamedTuple):
    """A counter that was seen ``times`` times without a change, first at ``since_s``."""

    counter: int
    since_s: float
    times: int


class LeaseRows(Protocol):
    """The reads and conditional writes that a backend provides; they raise its usual errors."""

    async def add_lease(self, owner: Owner, ttl_ms: int) -> None:
        """Create the lease with counter 0; a repetition succeeds."""
        ...

    async def renew_lease(self, owner: Owner) -> bool:
        """Increment the counter; False if the lease no longer exists (nothing is written)."""
        ...

    async def leases(self) -> dict[Owner, Lease]:
        """Return all leases."""
        ...

    async def end_lease(self, owner: Owner, counter: int | None) -> None:
        """Remove the lease and its nodes if the counter is still ``counter`` (None: any)."""
        ...


class LeaseSession(StoreSession):
    """A session that this process holds."""

    def __init__(self, leases: "Leases", owner: Owner, ttl_ms: int) -> None:
        super().__init__()
        self.owner = owner
        self.ttl_ms = ttl_ms
        self._leases = leases

    async def close(self) -> None:
        """End the session and remove its nodes. Safe to repeat."""
        self._on_lost.clear()
        await self._leases.end(self)


class LeaseObservations:
    """The observations of one process, from which it finds expired leases."""

    def __init__(self) -> None:
        self._observations: dict[Owner, _Observation] = {}

    def clear(self) -> None:
        """Drop all observations, which gives every owner a whole TTL again."""
        self._observations.clear()

    def find_expired(
        self, rows: dict[Owner, Lease], *, requested_s: float, received_s: float
    ) -> list[Owner]:
        """Return the owners whose counter did not change for their TTL, and record ``rows``.

        The time is measured from an earlier response to this request (loop times in seconds). An
        observer that was itself stopped has too few observations to find anything expired.
        """
        current = {}
        expired = []
        for owner, lease in rows.items():
            observation = self._observations.get(owner)
            if observation is None or observation.counter != lease.counter:
                observation = _Observation(lease.counter, received_s, 0)
            current[owner] = observation = observation._replace(times=observation.times + 1)
            if (
                requested_s - observation.since_s > lease.ttl_ms / 1000
                and observation.times > OBSERVATIONS_PER_TTL // 2
            ):
                expired.append(owner)
        self._observations = current
        return expired


class Leases:
    """The sessions of one store handle, and the observation of all sessions of the store."""

    def __init__(self, rows: LeaseRows, new_owner: Callable[[], Owner]) -> None:
        self._rows = rows
        self._new_owner = new_owner
        self._sessions: dict[Owner, LeaseSession] = {}
        self._observations = LeaseObservations()
        self._tasks = Tasks()
        self._observer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start observing. Safe to repeat."""
        if self._observer is None:
            self._observer = self._tasks.spawn(self._observe(), "lease observer")

    async def open(self, ttl_ms: int) -> LeaseSession:
        """Open a session. Raises InvalidArgumentError if the TTL is below ``TTL_MS_MIN``."""
        if ttl_ms < TTL_MS_MIN:
            raise InvalidArgumentError(f"session TTL {ttl_ms} ms is below {TTL_MS_MIN} ms")
        owner = self._new_owner()
        await self._rows.add_lease(owner, ttl_ms)
        session = LeaseSession(self, owner, ttl_ms)
        if self._tasks.is_closed:
            await self._rows.end_lease(owner, None)
            raise ClosedError("the store was closed")
        self._sessions[owner] = session
        self._tasks.spawn(self._keep_alive(session), f"lease {owner}")
        return session

    async def end(self, session: LeaseSession) -> None:
        """End a session; if the store cannot be reached, it ends after its TTL."""
        if session.is_lost:
            return
        session.mark_lost()
        self._sessions.pop(session.owner, None)
        try:
            await self._rows.end_lease(session.owner, None)
        except MetadataError:
            return  # it is not renewed any more, so observers remove it

    def own_session(self, session: Session) -> LeaseSession:
        """Return the session if this handle opened it and it is not known to be lost."""
        if not isinstance(session, LeaseSession) or session._leases is not self:
            raise InvalidArgumentError("the session belongs to another store handle")
        if session.is_lost:
            raise SessionLostError(f"session {session.owner} has ended")
        return session

    async def aclose(self) -> None:
        """End all sessions and stop observing. Safe to repeat."""
        await self._tasks.aclose()
        for session in list(self._sessions.values()):
            await session.close()

    async def _keep_alive(self, session: LeaseSession) -> None:
        """Renew the lease until the store reports that it no longer exists.

        While the store is unavailable, the session may or may not have expired.
        """
        ttl_s = session.ttl_ms / 1000
        pause_s = ttl_s / RENEWALS_PER_TTL
        while not session.is_lost:
            await asyncio.sleep(pause_s)
            try:
                async with asyncio.timeout(ttl_s):
                    is_alive = await self._rows.renew_lease(session.owner)
            except (MetadataError, TimeoutError):
                pause_s = ttl_s / RENEWALS_PER_TTL / 4
                continue
            pause_s = ttl_s / RENEWALS_PER_TTL
            if not is_alive:
                self._sessions.pop(session.owner, None)
                session.mark_lost()

    async def _observe(self) -> None:
        """Read the rows several times in the shortest TTL, and remove expired ones."""
        loop = asyncio.get_running_loop()
        while True:
            pause_ms = OBSERVE_MS_MAX
            requested_s = loop.time()
            try:
                rows = await self._rows.leases()
                for lease in rows.values():
                    pause_ms = min(pause_ms, lease.ttl_ms // OBSERVATIONS_PER_TTL)
                for owner in self._observations.find_expired(
                    rows, requested_s=requested_s, received_s=loop.time()
                ):
                    await self._rows.end_lease(owner, rows[owner].counter)
            except MetadataError:
                self._observations.clear()  # owners could not renew their leases either
            await asyncio.sleep(max(pause_ms, OBSERVE_MS_MIN) / 1000)
