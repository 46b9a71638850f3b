"""Being listed: the bookie's registration, kept up over lost sessions and changes of mode.

The data path never waits for any of this: a bookie that is not listed still serves whoever knows
it. One task runs for the life of the bookie; it sleeps until the session is lost or something that
is registered changes.
"""

import asyncio

from ..metadata.bookie_directory import BookieDirectory
from ..protocol.errors import MetadataError, RhumblineError
from ..runtime.metadata_store import Session
from ..runtime.tasks import Tasks
from ..wire.registration import Registration
from .config import BookieConfig


class RegistrationKeeper:
    """Keeps one registration as it should be."""

    def __init__(
        self,
        directory: BookieDirectory,
        config: BookieConfig,
        registration: Registration,
        tasks: Tasks,
    ) -> None:
        self._directory = directory
        self._config = config
        self._registration = registration
        self._tasks = tasks
        self._wanted_read_only = False
        self._changed = asyncio.Event()
        self._session: Session | None = None
        self._is_leaving = False
        self.is_registered = False
        self.lost_count = 0

    async def join(self, *, read_only: bool) -> None:
        """Registers for the first time; from then on stays registered until ``leave``.

        Raises NodeExistsError when another process stays registered by this id, MetadataError.
        """
        self._wanted_read_only = read_only
        await self._register()
        self._tasks.spawn(self._stay(read_only), "registration")

    def set_read_only(self, read_only: bool) -> None:
        """What it should be listed as, from now on."""
        if read_only != self._wanted_read_only:
            self._wanted_read_only = read_only
            self._changed.set()

    async def leave(self) -> None:
        """Says that the bookie is down. Safe to repeat; the session's end says so otherwise."""
        self._is_leaving = True
        session, self._session = self._session, None
        if session is None:
            return
        try:
            await self._directory.unregister(self._registration.bookie_id)
        except MetadataError:
            return  # the store is away: the registration goes with the session
        finally:
            self.is_registered = False
            await session.close()

    async def _register(self) -> None:
        session = await self._directory.session(self._config.session_ttl_ms)
        try:
            await self._directory.reclaim(self._registration)
            await self._directory.register(
                session, self._registration, read_only=self._wanted_read_only
            )
        except BaseException:
            await session.close()
            raise
        self._take(session)

    async def _stay(self, listed_read_only: bool) -> None:
        while not self._is_leaving:
            await self._changed.wait()
            self._changed.clear()
            try:
                listed_read_only = await self._restore(listed_read_only)
            except RhumblineError:
                # The store is away, or our lost session's node is still there: again, later.
                await asyncio.sleep(self._config.registration_retry_ms / 1000)
                self._changed.set()

    async def _restore(self, listed_read_only: bool) -> bool:
        """Brings the registration to what it should be; returns the mode it is listed in."""
        if self._is_leaving:
            return listed_read_only
        session = self._session
        wanted = self._wanted_read_only
        if session is None or session.is_lost:
            if session is not None:
                self.lost_count += 1
                self.is_registered = False
                self._session = None
                await session.close()
            await self._register()
        elif wanted != listed_read_only:
            await self._move(session, wanted)
        return wanted

    async def _move(self, before: Session, read_only: bool) -> None:
        """Changes the mode, with a session of its own: a registration in the old mode whose request
        was lost comes to nothing when the old session is over, however late it arrives."""
        session = await self._directory.session(self._config.session_ttl_ms)
        try:
            await self._directory.set_read_only(session, self._registration, read_only)
        except BaseException:
            await session.close()
            raise
        self._take(session)
        await before.close()

    def _take(self, session: Session) -> None:
        self._session = session
        self.is_registered = True
        session.on_lost(self._changed.set)
