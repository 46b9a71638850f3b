"""An attacker who speaks the wire protocol of bookies, with the means that the attacker has."""

import asyncio
import ssl
from contextlib import suppress
from types import TracebackType
from typing import Self

from rhumbline.security.settings import TlsSettings
from rhumbline.tests.support.security.attacks import HOST
from rhumbline.tls.credentials import TlsCredentials

_WAIT_S = 0.3


class WireAttacker:
    """Sends packets to a bookie, each on a connection of its own if the last one was closed."""

    def __init__(self, port: int, tls: TlsSettings | None) -> None:
        self._port = port
        self._credentials = None if tls is None else TlsCredentials(tls)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    async def ask(self, packet: bytes) -> bytes:
        """Send a packet and return the response; empty if the connection is refused or closed."""
        with suppress(OSError, TimeoutError, ssl.SSLError):
            async with asyncio.timeout(_WAIT_S):
                if self._streams is None:
                    self._streams = await self._open()
                reader, writer = self._streams
                writer.write(packet)
                if response := await reader.read(1 << 16):
                    return response
        self._close()
        return b""

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._credentials is None:
            return await asyncio.open_connection(HOST, self._port)
        return await asyncio.open_connection(
            HOST,
            self._port,
            ssl=self._credentials.client_context(),
            server_hostname=self._credentials.server_name(HOST),
        )

    def _close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None
