"""The bookie's registration, maintained across lost sessions and mode changes (rule BKE-24).

The data path never waits for the registration: an unregistered bookie still serves its clients. One
task for each store runs for the lifetime of the bookie. It sleeps until the session is lost or the
mode changes.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

from ..metadata.bookie_directory import BookieDirectory
from ..protocol.errors import MetadataError, RhumblineError
from ..runtime.event_log import EventLog, LogLimit
from ..runtime.metadata_store import Session
from ..runtime.primitives.backoff import Backoff
from ..runtime.primitives.wakeup import Wakeup
from ..runtime.tasks import Tasks
from ..wire.registration import (
    ADDRESS_PREFIX,
    FREE_BYTES,
    HOLDER,
    HOST,
    LIMBO,
    LOST,
    RACK,
    REGION,
    ZONE,
    Registration,
)
from .config import BookieConfig
from .identity import Identity

_LOG = EventLog(__name__)


def registration_of(
    identity: Identity,
    config: BookieConfig,
    *,
    host: str,
    port: int,
    holder: str,
    free_bytes: int,
    is_in_limbo: bool,
) -> Registration:
    """Return what a bookie that listens on ``host`` and ``port`` registers.

    ``holder`` identifies the lock on its storage; empty if there is none.
    """
    properties = {
        REGION: identity.region,
        RACK: config.rack or identity.rack,
        FREE_BYTES: str(free_bytes),
    }
    if is_in_limbo:
        properties[LIMBO] = "yes"
    if config.zone:
        properties[ZONE] = config.zone
    if config.host:
        properties[HOST] = config.host
    if holder:
        properties[HOLDER] = holder
    for viewer, address in config.advertised_addresses:
        properties[ADDRESS_PREFIX + viewer] = address
    return Registration(identity.bookie_id, config.advertised_host or host, port, properties)


class BookieRegistrations:
    """The registrations of one bookie: in the global store, and in that of its region if any."""

    def __init__(self, config: BookieConfig, tasks: Tasks, random: Random) -> None:
        self._config = config
        self._tasks = tasks
        self._random = random
        self._keepers: list[RegistrationKeeper] = []

    @property
    def is_registered(self) -> bool:
        """True if the bookie is registered in at least one store."""
        return any(keeper.is_registered for keeper in self._keepers)

    @property
    def lost_count(self) -> int:
        """Number of sessions that were lost, in all stores."""
        return sum(keeper.lost_count for keeper in self._keepers)

    async def join(
        self,
        directories: Sequence[BookieDirectory],
        registration: Registration,
        *,
        is_read_only: Callable[[], bool],
    ) -> None:
        """Registers in the stores in turn, each in the mode of that moment.

        Raises as ``RegistrationKeeper.join``.
        """
        for directory in directories:
            keeper = RegistrationKeeper(
                directory, self._config, registration, self._tasks, self._random
            )
            self._keepers.append(keeper)
            await keeper.join(read_only=is_read_only())

    def set_read_only(self, read_only: bool) -> None:
        """Sets the mode in which the bookie is registered."""
        for keeper in self._keepers:
            keeper.set_read_only(read_only)

    def set_free_bytes(self, free_bytes: int) -> None:
        """Publishes the free space by which placement chooses bookies (rule PLC-15)."""
        for keeper in self._keepers:
            keeper.set_free_bytes(free_bytes)

    def set_limbo(self, is_in_limbo: bool) -> None:
        """Publishes whether the bookie is in limbo, so that its copies count or not (PLC-23)."""
        for keeper in self._keepers:
            keeper.set_limbo(is_in_limbo)

    def set_lost(self, ledgers: str) -> None:
        """Publishes which ledgers lack copies, as ``lost_ledgers.encode`` returns (rule DSK-5)."""
        for keeper in self._keepers:
            keeper.set_lost(ledgers)

    async def leave(self) -> None:
        """Removes the registrations. Safe to repeat."""
        for keeper in self._keepers:
            await keeper.leave()


class RegistrationKeeper:
    """Keeps one registration in the wanted mode, writable or read-only."""

    def __init__(
        self,
        directory: BookieDirectory,
        config: BookieConfig,
        registration: Registration,
        tasks: Tasks,
        random: Random,
    ) -> None:
        self._directory = directory
        self._config = config
        self._registration = registration
        self._tasks = tasks
        self._backoff = Backoff(random, config.registration_retry_ms, config.registration_retry_ms)
        self._wanted_read_only = False
        self._is_outdated = False
        self._wakeup = Wakeup()
        self._session: Session | None = None
        self._is_leaving = False
        self.is_registered = False
        self.lost_count = 0
        self._log_limit = LogLimit()

    async def join(self, *, read_only: bool) -> None:
        """Registers for the first time and keeps the registration until ``leave``.

        Raises NodeExistsError if another process stays registered with this id, MetadataError.
        """
        self._wanted_read_only = read_only
        await self._register()
        self._tasks.spawn(self._keep_registered(read_only), "registration")

    def set_read_only(self, read_only: bool) -> None:
        """Sets the mode in which the bookie is registered."""
        if read_only != self._wanted_read_only:
            self._wanted_read_only = read_only
            self._wakeup.wake()

    def set_free_bytes(self, free_bytes: int) -> None:
        """Publishes the free space by which placement chooses bookies (rule PLC-15)."""
        self._publish({**self._registration.properties, FREE_BYTES: str(free_bytes)})

    def set_limbo(self, is_in_limbo: bool) -> None:
        """Publishes whether the bookie is in limbo, so that its copies count or not (PLC-23)."""
        self._set(LIMBO, "yes" if is_in_limbo else "")

    def set_lost(self, ledgers: str) -> None:
        """Publishes which ledgers lack copies, as ``lost_ledgers.encode`` returns (rule DSK-5)."""
        self._set(LOST, ledgers)

    def _set(self, name: str, value: str) -> None:
        """Publishes a property, or its absence if the value is empty, unless nothing changes."""
        known = self._registration.properties
        if value != known.get(name, ""):
            others = {key: old for key, old in known.items() if key != name}
            self._publish({**others, name: value} if value else others)

    def _publish(self, properties: Mapping[str, str]) -> None:
        self._registration = replace(self._registration, properties=properties)
        self._is_outdated = True
        self._wakeup.wake()

    async def leave(self) -> None:
        """Removes the registration. Safe to repeat.

        If the metadata store is unavailable, the registration expires with its session.
        """
        self._is_leaving = True
        session, self._session = self._session, None
        if session is None:
            return
        try:
            await self._directory.unregister(self._registration.bookie_id)
        except MetadataError:
            return  # the registration expires with the session
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
        self._adopt(session)

    async def _keep_registered(self, listed_read_only: bool) -> None:
        while not self._is_leaving:
            await self._wakeup.wait()
            try:
                listed_read_only = await self._update(listed_read_only)
            except RhumblineError as error:
                # The store is unavailable, or the lost session has not expired there yet.
                self._log_failure(error)
                await self._backoff.pause()
                self._wakeup.wake()

    def _log_failure(self, error: RhumblineError) -> None:
        dropped = self._log_limit.admit(asyncio.get_running_loop().time())
        if dropped is not None:
            bookie = self._registration.bookie_id
            _LOG.warning("registration failed", bookie=bookie, error=error, dropped=dropped or None)

    async def _update(self, listed_read_only: bool) -> bool:
        """Updates the registration to the wanted mode; returns the mode that is registered."""
        if self._is_leaving:
            return listed_read_only
        session = self._session
        wanted = self._wanted_read_only
        if session is None or session.is_lost:
            if session is not None:
                self.lost_count += 1
                self.is_registered = False
                self._session = None
                _LOG.warning("registration lost", bookie=self._registration.bookie_id)
                await session.close()
            await self._register()
        elif wanted != listed_read_only:
            await self._change_mode(session, wanted)
        elif self._is_outdated:
            await self._refresh()
        return wanted

    async def _refresh(self) -> None:
        self._is_outdated = False
        try:
            await self._directory.refresh(self._registration)
        except RhumblineError:
            self._is_outdated = True
            raise

    async def _change_mode(self, before: Session, read_only: bool) -> None:
        """Changes the mode with a new session.

        A delayed request of the old session that registers the old mode has no effect after that
        session is closed.
        """
        session = await self._directory.session(self._config.session_ttl_ms)
        try:
            await self._directory.set_read_only(session, self._registration, read_only)
        except BaseException:
            await session.close()
            raise
        self._adopt(session)
        await before.close()

    def _adopt(self, session: Session) -> None:
        self._session = session
        self.is_registered = True
        mode = "read-only" if self._wanted_read_only else "writable"
        _LOG.info("bookie registered", bookie=self._registration.bookie_id, mode=mode)
        session.on_lost(self._wakeup.wake)
