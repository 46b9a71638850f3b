"""Frames and cut paths in the trace."""

import asyncio
from collections.abc import Iterator
from typing import cast

import pytest

from rhumbline.chaos.simulation.world.sim_world import SimHost, SimWorld
from rhumbline.chaos.simulation.world.wiretap import Wiretap

BOOKIE_PORT, PROXY_PORT = 3181, 4281
LINES: list[str] = []


class EndOfCall(asyncio.Protocol):
    """Responds to anything with the empty last frame of a proxy's call."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(frame(b"\x02"))


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


@pytest.fixture
def world() -> Iterator[SimWorld]:
    """Return a world whose frames and paths are traced, which runs the test."""
    LINES.clear()
    with SimWorld(1, on_line=LINES.append) as world:
        Wiretap(world.network)
        yield world


def traced(source: str) -> list[str]:
    """Return the messages of one source."""
    return [line[28:] for line in LINES if line[13:].startswith(f"{source} ")]


async def serve(host: SimHost) -> None:
    for port in (BOOKIE_PORT, PROXY_PORT):
        await asyncio.get_running_loop().create_server(EndOfCall, host.name, port)
    await asyncio.Event().wait()


async def test_frames_of_bookies_and_of_calls_to_proxies_are_described(world: SimWorld) -> None:
    server, client = world.host("server", "east"), world.host("client", "west")
    server.start(serve)

    async def send(host: SimHost) -> None:
        for port, content in ((PROXY_PORT, b"\x00/rhumbline.v1/Append"), (BOOKIE_PORT, b"\x08")):
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(asyncio.Protocol, "server", port)
            transport.write(frame(content))
            await asyncio.sleep(1)
        await asyncio.Event().wait()

    await asyncio.sleep(0.1)
    client.start(send)
    await asyncio.sleep(3)
    assert traced("wire") == [
        "client > server: call of /rhumbline.v1/Append",
        "server > client: end of 0 bytes",
        "client > server: v3 request of 1 bytes",
        "server > client: response of 1 bytes",
    ]


async def test_cut_paths_are_traced_once_until_they_are_open(world: SimWorld) -> None:
    world.network.cut("east", "west")
    world.network.cut("east", "west")
    world.network.heal("east", "west")
    assert traced("paths") == ["east > west is cut"]
    world.network.heal_all()
    assert traced("paths") == ["east > west is cut", "east > west is open"]
