"""The way to one bookie: a connection when there is one, and when to try for the next.

Nobody reconnects on its own: whoever wants to send asks ``connect``, and is refused while a failed
bookie rests. So a process without traffic has no timers, however many bookies it knows.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from ...protocol.bookie_id import BookieId, Region
from ...protocol.errors import BookieUnavailableError, ProtocolError, RhumblineError
from ...runtime.runtime import Runtime
from ...runtime.tasks import Tasks
from ...wire.registration import ADDRESS_PREFIX, BookieAddress, Registration, parse_address
from ..config import LedgerConfig
from .bookie_connection import BookieConnection


class Addresses(Protocol):
    """Where bookies registered."""

    async def registration(self, bookie: BookieId) -> Registration:
        """What ``bookie`` registered last. Raises a typed error when it is not registered."""
        ...


class BookieLink:
    """Connects on demand; after a failure it rests for a while that doubles, with some jitter."""

    __slots__ = (
        "_addresses",
        "_config",
        "_failures",
        "_loop",
        "_region",
        "_rests_until",
        "_runtime",
        "_tasks",
        "bookie",
        "connection",
        "last_error",
        "received_bytes",
        "sent_bytes",
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
        self._runtime = runtime
        self._config = config
        self._region = region
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._failures = 0
        self._rests_until = 0.0
        self.sent_bytes = 0  # over all connections so far
        self.received_bytes = 0

    def connect(self) -> BookieConnection | None:
        """The connection, opened if there is none; it takes requests while it is being made.

        None while the bookie rests after a failure: ``last_error`` says of what.
        """
        if self.connection is None and not self.is_resting and not self._tasks.is_closed:
            self.connection = BookieConnection(self, self._config)
            self._tasks.spawn(self._open(self.connection), f"connect to {self.bookie}")
        return self.connection

    @property
    def is_resting(self) -> bool:
        """Whether ``connect`` refuses for now."""
        return self._loop.time() < self._rests_until

    def on_ready(self) -> None:
        """The bookie proved its identity: the next failure is a first one again."""
        self._failures = 0

    def on_lost(self, connection: BookieConnection, error: RhumblineError) -> None:
        """``connection`` ended: rest before the next."""
        if connection is not self.connection:
            return
        self.connection = None
        self.last_error = error
        pause_ms = min(
            self._config.backoff_ms_max, self._config.backoff_ms_min << min(self._failures, 16)
        )
        self._failures += 1
        jitter = 0.5 + self._runtime.random.random()
        self._rests_until = self._loop.time() + pause_ms * jitter / 1000

    def close(self, error: RhumblineError) -> None:
        """Ends the connection, if any; requests that wait hear ``error``."""
        if self.connection is not None:
            self.connection.fail(error)

    async def _open(self, connection: BookieConnection) -> None:
        try:
            async with asyncio.timeout(self._config.connect_timeout_ms / 1000):
                registration = await self._addresses.registration(self.bookie)
                host, port = address_for(registration, self._region)
                await self._loop.create_connection(_protocol(connection), host, port)
                await connection.wait_ready()
        except (OSError, TimeoutError, RhumblineError) as error:
            connection.fail(
                BookieUnavailableError(f"cannot connect to {self.bookie}: {error or 'timed out'}")
            )
        except BaseException:
            connection.fail(BookieUnavailableError(f"gave up connecting to {self.bookie}"))
            raise


def _protocol(connection: BookieConnection) -> Callable[[], Any]:
    # Any: a class that can be compiled cannot inherit from asyncio's.
    return lambda: connection


def address_for(registration: Registration, region: Region | None) -> BookieAddress:
    """The address that the bookie advertises to viewers in ``region``, else its general one.

    Raises ProtocolError for a property that is not ``host:port``.
    """
    special = registration.properties.get(f"{ADDRESS_PREFIX}{region}")
    if region is None or special is None:
        return registration.address
    address = parse_address(special)
    if address is None:
        raise ProtocolError(f"{registration.bookie_id} advertises {special[:80]!r} to {region}")
    return address
