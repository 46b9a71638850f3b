"""TLS between two layers in memory: large data in every form of sending and receiving."""

import asyncio
import random
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from rhumbline.security.principal import Role
from rhumbline.tests.support.security.certificates import authority, settings_for
from rhumbline.tls.credentials import TlsCredentials
from rhumbline.tls.tls_layer import TlsLayer

KIB = 1024
STEP = 256 * KIB


class Wire:
    """A plain transport that keeps what is written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = self.is_paused = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True

    def take(self) -> bytes:
        """Return and forget what was written."""
        data = b"".join(self.written)
        self.written.clear()
        return data


class Receiver(asyncio.Protocol):
    """Keeps what it receives."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.transport: asyncio.Transport | None = None
        self.has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        self.has_ended = True
        return False


class Filler:
    """A protocol with a buffer of ``size`` bytes; ``then`` takes the transport once it is full."""

    def __init__(self, size: int, then: Receiver) -> None:
        self._buffer = memoryview(bytearray(size))
        self._filled = 0
        self._then = then

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._filled :]

    def buffer_updated(self, size: int) -> None:
        self._filled += size
        if self._filled == len(self._buffer):
            self._then.received += self._buffer
            assert self._then.transport is not None
            self._then.transport.set_protocol(self._then)


class Pair:
    """A client and a server after their handshake."""

    def __init__(self, tmp_path: Path) -> None:
        made = authority(tmp_path)
        self.failures: list[Exception | None] = []
        self.client, self.server = Receiver(), Receiver()
        self.client_wire, self.server_wire = Wire(), Wire()
        server = TlsCredentials(settings_for(made, "server", Role.BOOKIE)).server_context()
        client = TlsCredentials(settings_for(made, "client")).client_context()
        self.server_layer = self._layer(server, self.server, None)
        self.client_layer = self._layer(client, self.client, "127.0.0.1")
        self.server_layer.connection_made(cast("asyncio.Transport", self.server_wire))
        self.client_layer.connection_made(cast("asyncio.Transport", self.client_wire))
        for _ in range(3):
            self.to_server()
            deliver(self.client_layer, self.server_wire.take(), STEP)
        assert self.server.transport is not None

    def _layer(self, context: ssl.SSLContext, inner: Receiver, name: str | None) -> TlsLayer:
        return TlsLayer(
            context,
            lambda: inner,
            self.failures.append,
            handshake_ms_max=5_000,
            server_name=name,
        )

    @property
    def sender(self) -> asyncio.Transport:
        assert self.client.transport is not None
        return self.client.transport

    def to_server(self, piece_bytes: int = STEP) -> None:
        deliver(self.server_layer, self.client_wire.take(), piece_bytes)


def deliver(layer: TlsLayer, data: bytes, piece_bytes: int) -> None:
    """Receive ``data`` as the event loop does, at most ``piece_bytes`` at once."""
    while data:
        buffer = layer.get_buffer(-1)
        size = min(len(buffer), piece_bytes, len(data))
        buffer[:size], data = data[:size], data[size:]
        layer.buffer_updated(size)


def parts_of(*sizes: int) -> list[bytes]:
    chooser = random.Random(1)
    return [chooser.randbytes(size) for size in sizes]


def as_one(transport: asyncio.Transport, parts: list[bytes]) -> None:
    transport.write(b"".join(parts))


def as_view(transport: asyncio.Transport, parts: list[bytes]) -> None:
    transport.write(memoryview(b"".join(parts)))


def as_lines(transport: asyncio.Transport, parts: list[bytes]) -> None:
    transport.writelines([memoryview(part) for part in parts])


@pytest.mark.parametrize("send", [as_one, as_view, as_lines])
@pytest.mark.parametrize("piece_bytes", [STEP, 7_001])
async def test_large_data_arrives_whole(
    tmp_path: Path,
    send: Callable[[asyncio.Transport, list[bytes]], None],
    piece_bytes: int,
) -> None:
    pair = Pair(tmp_path)
    parts = parts_of(24, 0, 700 * KIB, 1, STEP, 3, STEP - 1, STEP + 1, 100 * KIB, 200 * KIB, 5)
    send(pair.sender, parts)
    pair.to_server(piece_bytes)
    assert pair.server.received == b"".join(parts)
    assert pair.failures == []


async def test_small_parts_leave_together_and_large_ones_in_steps(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.sender.writelines(parts_of(*[100] * 1_000))
    assert len(pair.client_wire.written) == 1
    pair.client_wire.take()
    pair.sender.write(bytes(4 * STEP))
    assert len(pair.client_wire.written) == 4
    assert max(map(len, pair.client_wire.written)) < STEP + 2 * KIB


@pytest.mark.parametrize("piece_bytes", [STEP, 7_001])
async def test_a_buffer_is_filled_up_to_its_end_and_the_rest_follows(
    tmp_path: Path, piece_bytes: int
) -> None:
    pair = Pair(tmp_path)
    head, rest = parts_of(1_000_003, 50 * KIB)
    pair.server_layer.set_protocol(Filler(len(head), pair.server))
    pair.sender.write(head + rest)
    pair.to_server(piece_bytes)
    assert pair.server.received == head + rest


async def test_nothing_is_delivered_while_reading_is_paused(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    (body,) = parts_of(600 * KIB)
    assert pair.server.transport is not None
    pair.server.transport.pause_reading()
    pair.sender.write(body)
    pair.to_server()
    assert pair.server.received == b""
    assert pair.server_wire.is_paused
    pair.server.transport.resume_reading()
    await asyncio.sleep(0)
    assert pair.server.received == body


async def test_the_goodbye_after_large_data_ends_the_connection(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    (body,) = parts_of(600 * KIB)
    pair.server_layer.set_protocol(Filler(len(body), pair.server))
    pair.sender.write(body)
    pair.sender.close()
    pair.to_server()
    assert pair.server.received == body
    assert pair.server.has_ended
    assert pair.server_wire.is_closed


async def test_a_changed_record_ends_the_connection_and_is_not_delivered(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.sender.write(bytes(16 * KIB))
    pair.sender.write(b"secret")
    data = bytearray(pair.client_wire.take())
    data[-1] ^= 1
    deliver(pair.server_layer, bytes(data), STEP)
    assert b"secret" not in pair.server.received
    assert pair.server_wire.is_closed
