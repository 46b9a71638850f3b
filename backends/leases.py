"""Sessions for stores that have none: lease rows, judged without comparing anybody's clocks.

A session is a row (owner, TTL, counter) whose owner raises the counter every third of the TTL.
Every process that has the store open also observes the rows: one whose counter it saw unchanged for
a whole TTL, on its own monotonic clock, is dead, and is removed together with its nodes in one
transaction that is conditional on that counter. A beat and a removal therefore exclude each other
in the store, whatever the clocks do. The store is the judge: an owner that was stopped for longer
than its TTL keeps its session if nobody observed it; it learns of the loss from its next beat.
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

Owner = NewType("Owner", str)

BEATS_PER_TTL = 3
LOOKS_PER_TTL = 8
LOOK_MS_MIN = 20
LOOK_MS_MAX = 500
TTL_MS_MIN = 50


class Lease(NamedTuple):
    """A session as its row says it."""

    ttl_ms: int
    counter: int


class _Sight(NamedTuple):
    """Since when, and how often, a counter was seen."""

    counter: int
    since: float
    looks: int


class LeaseRows(Protocol):
    """What a backend offers: five conditional writes and reads. They raise as any of its calls."""

    async def add_lease(self, owner: Owner, ttl_ms: int) -> None:
        """Makes the row with counter 0; the same again is a success."""
        ...

    async def beat_lease(self, owner: Owner) -> bool:
        """Raises the counter. False: the row is gone, and nothing was written."""
        ...

    async def leases(self) -> dict[Owner, Lease]:
        """All rows."""
        ...

    async def end_lease(self, owner: Owner, counter: int | None) -> None:
        """Removes row and nodes if the counter is still this one (None: whatever it is)."""
        ...


class LeaseSession:
    """A session that this process holds."""

    def __init__(self, leases: "Leases", owner: Owner, ttl_ms: int) -> None:
        self.owner = owner
        self.ttl_ms = ttl_ms
        self.is_lost = False
        self._leases = leases
        self._on_lost: list[Callable[[], None]] = []

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Calls back once when the session is lost (at once if it is already)."""
        if self.is_lost:
            asyncio.get_running_loop().call_soon(callback)
        else:
            self._on_lost.append(callback)

    async def close(self) -> None:
        """Ends the session and removes its nodes. Safe to repeat."""
        self._on_lost.clear()
        await self._leases.end(self)

    def lose(self) -> None:
        """It is gone. Safe to repeat."""
        if self.is_lost:
            return
        self.is_lost = True
        for callback in self._on_lost:
            asyncio.get_running_loop().call_soon(callback)
        self._on_lost.clear()


class Sights:
    """What an observer saw of the rows, and whom it may therefore judge dead."""

    def __init__(self) -> None:
        self._sights: dict[Owner, _Sight] = {}

    def forget(self) -> None:
        """Gives everybody a whole TTL again."""
        self._sights.clear()

    def silent(self, rows: dict[Owner, Lease], *, asked: float, answered: float) -> list[Owner]:
        """The owners that were silent for their TTL, between an earlier answer and this question.

        An observer that was stopped itself has looked too seldom to judge.
        """
        seen = {}
        dead = []
        for owner, lease in rows.items():
            sight = self._sights.get(owner)
            if sight is None or sight.counter != lease.counter:
                sight = _Sight(lease.counter, answered, 0)
            seen[owner] = sight = sight._replace(looks=sight.looks + 1)
            if asked - sight.since > lease.ttl_ms / 1000 and sight.looks > LOOKS_PER_TTL // 2:
                dead.append(owner)
        self._sights = seen
        return dead


class Leases:
    """The sessions of one store handle, and its observation of everybody else's."""

    def __init__(self, rows: LeaseRows, new_owner: Callable[[], Owner]) -> None:
        self._rows = rows
        self._new_owner = new_owner
        self._sessions: dict[Owner, LeaseSession] = {}
        self._sights = Sights()
        self._tasks = Tasks()
        self._observer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to observe. Safe to repeat."""
        if self._observer is None:
            self._observer = self._tasks.spawn(self._observe(), "lease observer")

    async def open(self, ttl_ms: int) -> LeaseSession:
        """A new session."""
        if ttl_ms < TTL_MS_MIN:
            raise InvalidArgumentError(f"a session TTL of {ttl_ms} ms is below {TTL_MS_MIN} ms")
        owner = self._new_owner()
        await self._rows.add_lease(owner, ttl_ms)
        session = LeaseSession(self, owner, ttl_ms)
        if self._tasks.is_closed:
            await self._rows.end_lease(owner, None)
            raise ClosedError("the store was closed")
        self._sessions[owner] = session
        self._tasks.spawn(self._keep(session), f"lease {owner}")
        return session

    async def end(self, session: LeaseSession) -> None:
        """Ends a session; when the store cannot be reached, its TTL does."""
        if session.is_lost:
            return
        session.lose()
        self._sessions.pop(session.owner, None)
        try:
            await self._rows.end_lease(session.owner, None)
        except MetadataError:
            return  # nobody beats for it any more, so observers remove it

    def held(self, session: Session) -> LeaseSession:
        """The session if it is one of this handle and not known as lost."""
        if not isinstance(session, LeaseSession) or session._leases is not self:
            raise InvalidArgumentError("a session of another store")
        if session.is_lost:
            raise SessionLostError(session.owner)
        return session

    async def aclose(self) -> None:
        """Ends all sessions and stops observing. Safe to repeat."""
        await self._tasks.aclose()
        for session in list(self._sessions.values()):
            await session.close()

    async def _keep(self, session: LeaseSession) -> None:
        """Beats until the store says that the row is gone; while it is away nobody knows."""
        ttl_s = session.ttl_ms / 1000
        pause_s = ttl_s / BEATS_PER_TTL
        while not session.is_lost:
            await asyncio.sleep(pause_s)
            try:
                async with asyncio.timeout(ttl_s):
                    is_kept = await self._rows.beat_lease(session.owner)
            except (MetadataError, TimeoutError):
                pause_s = ttl_s / BEATS_PER_TTL / 4
                continue
            pause_s = ttl_s / BEATS_PER_TTL
            if not is_kept:
                self._sessions.pop(session.owner, None)
                session.lose()

    async def _observe(self) -> None:
        """Looks at the rows several times in the shortest TTL, and removes the dead."""
        loop = asyncio.get_running_loop()
        while True:
            pause_ms = LOOK_MS_MAX
            asked = loop.time()
            try:
                rows = await self._rows.leases()
                for lease in rows.values():
                    pause_ms = min(pause_ms, lease.ttl_ms // LOOKS_PER_TTL)
                for owner in self._sights.silent(rows, asked=asked, answered=loop.time()):
                    await self._rows.end_lease(owner, rows[owner].counter)
            except MetadataError:
                self._sights.forget()  # owners could not beat either
            await asyncio.sleep(max(pause_ms, LOOK_MS_MIN) / 1000)
