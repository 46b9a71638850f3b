"""Asks many status servers at once, each with a deadline."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from ...core.protocol.errors import UnavailableError
from ...server.status_server import fetch_status
from ...tls.credentials import TlsCredentials

TIMEOUT_MS = 2_000
"""Time after which a status server counts as one that does not respond."""
_AT_ONCE = 64

Name = TypeVar("Name", bound=str)


class StatusDocument(NamedTuple):
    """The statistics of a server, or why there are none."""

    statistics: Mapping[str, Any]
    error: str | None

    @property
    def is_known(self) -> bool:
        """True if the server responded."""
        return self.error is None


NO_STATUS = StatusDocument({}, "it has no status server")


class _Connecting:
    """The credentials for status servers; commands set them from their settings."""

    credentials: TlsCredentials | None = None


def connect_with(credentials: TlsCredentials | None) -> None:
    """Use TLS with these credentials for all status servers; None: no TLS."""
    _Connecting.credentials = credentials


async def read_status(address: tuple[str, int] | None, path: str = "/stat") -> StatusDocument:
    """Return the statistics that the server at ``address`` reports now, or another document."""
    if address is None:
        return NO_STATUS
    try:
        credentials = _Connecting.credentials
        found = await fetch_status(*address, path, timeout_ms=TIMEOUT_MS, credentials=credentials)
        return StatusDocument(found, None)
    except (OSError, TimeoutError, ValueError, UnavailableError) as error:
        host, port = address
        reason = str(error) or type(error).__name__
        return StatusDocument({}, f"{host}:{port} does not respond: {reason}")


async def read_statuses(
    addresses: Mapping[Name, tuple[str, int] | None],
) -> dict[Name, StatusDocument]:
    """Return the statistics of several servers by name."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def read(address: tuple[str, int] | None) -> StatusDocument:
        async with slots:
            return await read_status(address)

    found = await asyncio.gather(*map(read, addresses.values()))
    return dict(zip(addresses, found, strict=True))


def parse_address(text: str) -> tuple[str, int] | None:
    """Return host and port of ``host:port``; None if it is empty or not an address."""
    host, _, port = text.rpartition(":")
    return (host, int(port)) if host and port.isdecimal() else None
