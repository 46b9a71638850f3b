"""The link to one bookie: its current connection, and the backoff before the next one.

A link does not reconnect by itself. The caller that wants to send calls ``connect``, which returns
None while the link backs off after a failure. So a process without traffic has no timers, however
many bookies it knows.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from ...protocol.bookie_id import BookieId, Region, has_incarnation
from ...protocol.errors import BookieUnavailableError, ClosedError, ProtocolError, RhumblineError
from ...runtime.event_log import EventLog
from ...runtime.primitives.backoff import Backoff
from ...runtime.runtime import Runtime
from ...runtime.tasks import Tasks
from ...wire.registration import ADDRESS_PREFIX, BookieAddress, Registration, parse_address
from ..config import LedgerConfig
from .bookie_connection import BookieConnection
from .hang_detector import HangDetector
from .link_traffic import LinkTraffic

_LOG = EventLog(__name__)


class Addresses(Protocol):
    """Finds the registrations of bookies."""

    async def registration(self, bookie: BookieId) -> Registration:
        """Returns the bookie's last registration. Raises a RhumblineError if it has none."""
        ...


class BookieLink:
    """Connects on demand. After a failure it backs off for a time that doubles, with jitter."""

    __slots__ = (
        "_addresses",
        "_backoff",
        "_config",
        "_loop",
        "_region",
        "_security",
        "_backoff_until",
        "_tasks",
        "bookie",
        "connected_at",
        "connection",
        "failed_since",
        "hang_detector",
        "last_error",
        "traffic",
    )

    def __init__(
        self,
        bookie: BookieId,
        addresses: Addresses,
        *,
        runtime: Runtime,
        config: LedgerConfig,
        region: Region | None,
        tasks: Tasks,
    ) -> None:
        self.bookie = bookie
        self.connection: BookieConnection | None = None
        self.last_error: RhumblineError = BookieUnavailableError(f"{bookie}: not connected yet")
        self._addresses = addresses
        self._config = config
        self._region = region
        self._tasks = tasks
        self._security = runtime.security
        self._loop = asyncio.get_running_loop()
        self._backoff = Backoff(runtime.random, config.backoff_ms_min, config.backoff_ms_max)
        self._backoff_until = 0.0
        self.failed_since: float | None = None
        """Loop time of the failure since which there was no connection; None if there is one."""
        self.connected_at: float | None = None
        """Loop time at which the last connection was established."""
        self.traffic = LinkTraffic()
        self.hang_detector = HangDetector(self.traffic)

    def connect(self) -> BookieConnection | None:
        """Returns the connection, which is opened if there is none.

        It accepts requests while it is being established. Returns None while the link backs off
        after a failure; ``last_error`` is then the reason.
        """
        if self.connection is None and not self.is_backing_off and not self._tasks.is_closed:
            self.connection = BookieConnection(
                self.bookie, self._config, self.traffic, self.on_lost
            )
            self._tasks.spawn(self._open(self.connection), f"connect to {self.bookie}")
        return self.connection

    @property
    def is_backing_off(self) -> bool:
        """True while ``connect`` returns None after a failure."""
        return self._loop.time() < self._backoff_until

    def on_lost(self, connection: BookieConnection, error: RhumblineError) -> None:
        """Starts the backoff, since ``connection`` has ended."""
        if connection is not self.connection:
            return
        self.connection = None
        self.last_error = error
        was_unused = connection.is_idle and connection.is_ended_by_peer  # the bookie frees it
        if self.failed_since is None and not was_unused and not isinstance(error, ClosedError):
            self.failed_since = self._loop.time()
            _LOG.warning("bookie unavailable", bookie=self.bookie, error=error)
        self._backoff_until = self._loop.time() + self._backoff.next_s()

    def close(self, error: RhumblineError) -> None:
        """Ends the connection, if any; pending requests fail with ``error``."""
        if self.connection is not None:
            self.connection.fail(error)

    def _on_ready(self) -> None:
        self.connected_at = self._loop.time()
        if self.failed_since is not None:
            outage_ms = round((self._loop.time() - self.failed_since) * 1000)
            self.failed_since = None
            _LOG.info("bookie available", bookie=self.bookie, outage_ms=outage_ms)

    async def _open(self, connection: BookieConnection) -> None:
        try:
            async with asyncio.timeout(self._config.connect_timeout_ms / 1000):
                registration = await self._addresses.registration(self.bookie)
                host, port = address_for(registration, self._region)
                await self._loop.create_connection(self._protocol(connection, host), host, port)
                await connection.wait_ready()
            self._backoff.reset()  # the bookie has proved its identity: the pauses begin anew
            self._on_ready()
        except (OSError, TimeoutError, RhumblineError) as error:
            reason = str(error) or "timed out"
            connection.fail(BookieUnavailableError(f"cannot connect to {self.bookie}: {reason}"))
        except BaseException:
            connection.fail(BookieUnavailableError(f"connecting to {self.bookie} was cancelled"))
            raise

    def _protocol(self, connection: BookieConnection, host: str) -> Callable[[], Any]:
        # Any, since a class that is to be compiled cannot inherit from asyncio's.
        security = self._security
        if security is None:
            return lambda: connection
        upgrades = not has_incarnation(self.bookie)  # Apache's bookies begin without TLS
        return lambda: security.protect(connection, host, upgrades=upgrades)


def address_for(registration: Registration, region: Region | None) -> BookieAddress:
    """Returns the address that the bookie advertises to ``region``, else its general one.

    Raises ProtocolError if the advertised address is not ``host:port``.
    """
    advertised = registration.properties.get(f"{ADDRESS_PREFIX}{region}")
    if region is None or advertised is None:
        return registration.address
    address = parse_address(advertised)
    if address is None:
        raise ProtocolError(
            f"{registration.bookie_id} advertises {advertised[:80]!r} to {region}, not host:port"
        )
    return address
