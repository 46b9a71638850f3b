"""The simulated world: time, processes, network paths, disks and the metadata store."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar, cast

import pytest

from rhumbline.chaos.simulation.world.loop import SimulationFailedError
from rhumbline.chaos.simulation.world.sim_world import SimHost, SimWorld
from rhumbline.core.protocol.errors import IndeterminateError, MetadataUnavailableError

T = TypeVar("T")


class Echo(asyncio.Protocol):
    """Sends back what it receives."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Caller(asyncio.Protocol):
    """Records its callbacks."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.got = b""
        self.events: list[str] = []
        self.arrived = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.got += data
        self.arrived.set()

    def eof_received(self) -> None:
        self.events.append("eof")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append(f"lost {type(exc).__name__ if exc else ''}".strip())

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[SimWorld]:
    """Return a simulated world, which runs the test; its parameter is the seed."""
    with SimWorld(getattr(request, "param", 1)) as world:
        yield world


async def serve_echo(host: SimHost) -> None:
    await asyncio.get_running_loop().create_server(Echo, host.name, 7)
    await asyncio.Event().wait()


async def nothing(host: SimHost) -> None:
    await asyncio.Event().wait()


def pair(world: SimWorld) -> tuple[SimHost, SimHost]:
    server, client = world.host("server", "east"), world.host("client", "west")
    server.start(serve_echo)
    client.start(nothing)
    return server, client


async def connect(client: SimHost, timeout_s: float = 5.0) -> Caller:
    """Connect from the client's process."""
    loop = asyncio.get_running_loop()

    async def work() -> tuple[asyncio.Transport, Caller]:
        async with asyncio.timeout(timeout_s):
            return await loop.create_connection(Caller, "server", 7)

    _, protocol = await client.spawn(work(), "connect")
    return protocol


async def test_virtual_time_passes_without_waiting(world: SimWorld) -> None:
    await asyncio.sleep(3600)
    assert asyncio.get_running_loop().time() == 3600


async def test_a_round_trip_takes_the_delay_of_both_directions(world: SimWorld) -> None:
    _, client = pair(world)
    await asyncio.sleep(0.1)
    caller = await connect(client)
    before = world.loop.now
    caller.transport.write(b"hello")
    async with asyncio.timeout(5):
        await caller.arrived.wait()
    assert 0.080 <= world.loop.now - before < 0.092


@pytest.mark.parametrize("world", [2], indirect=True)
async def test_bytes_arrive_in_order_whatever_the_jitter_and_the_cuts(world: SimWorld) -> None:
    _, client = pair(world)
    world.network.cut_rate = 0.5
    await asyncio.sleep(0.1)
    caller = await connect(client)
    sent = b""
    for number in range(2000):
        piece = number.to_bytes(4, "big")
        sent += piece
        caller.transport.write(piece)
        if number % 3 == 0:
            await asyncio.sleep(0.0003)
        if number == 1000:
            world.network.cut("server", "client")
        if number == 1500:
            world.network.heal("server", "client")
    await asyncio.sleep(5)
    assert caller.got == sent


@pytest.mark.parametrize("world", [3], indirect=True)
async def test_a_killed_process_stops_and_its_peers_lose_their_connections(world: SimWorld) -> None:
    ran: list[str] = []

    async def main(host: SimHost) -> None:
        try:
            await serve_echo(host)
        finally:
            ran.append("finally")

    server, client = pair(world)
    server.kill()
    server.start(main)
    await asyncio.sleep(0.1)
    caller = await connect(client)
    server.kill()
    await asyncio.sleep(1)
    assert caller.events[0] == "made"
    assert caller.events[-1].startswith("lost")
    with pytest.raises(ConnectionRefusedError):
        await connect(client)
    server.start()
    await asyncio.sleep(0.1)
    await connect(client)
    assert ran == []


@pytest.mark.parametrize("world", [4], indirect=True)
async def test_a_paused_process_resumes_where_it_was(world: SimWorld) -> None:
    ticks: list[float] = []

    async def main(host: SimHost) -> None:
        while True:
            ticks.append(host.world.loop.now)
            await asyncio.sleep(1.0)

    host = world.host("one", "east")
    host.start(main)
    await asyncio.sleep(2.5)
    host.pause()
    await asyncio.sleep(5)
    assert len(ticks) == 3
    host.resume()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert ticks[3:] == [7.5]


@pytest.mark.parametrize("world", [5], indirect=True)
async def test_a_one_way_cut_holds_bytes_until_it_is_healed(world: SimWorld) -> None:
    _, client = pair(world)
    await asyncio.sleep(0.1)
    caller = await connect(client)
    world.network.cut("east", "west")
    caller.transport.write(b"there and not back")
    await asyncio.sleep(2)
    assert caller.got == b""
    world.network.heal("east", "west")
    await asyncio.sleep(4)
    assert caller.got == b"there and not back"


@pytest.mark.parametrize("world", [6], indirect=True)
async def test_connecting_into_a_cut_region_hangs_until_the_callers_deadline(
    world: SimWorld,
) -> None:
    _, client = pair(world)
    world.cut_region("east")
    before = world.loop.now
    with pytest.raises(TimeoutError):
        await connect(client, timeout_s=5)
    assert world.loop.now - before == pytest.approx(5)


@pytest.mark.parametrize("world", [7], indirect=True)
async def test_a_long_cut_times_out_a_connection_with_unacknowledged_data(world: SimWorld) -> None:
    _, client = pair(world)
    await asyncio.sleep(0.1)
    caller = await connect(client)
    world.cut_region("east")
    caller.transport.write(b"x")
    await asyncio.sleep(200)
    assert caller.events == ["made", "lost TimeoutError"]


@pytest.mark.parametrize("world", [8], indirect=True)
async def test_after_a_power_cut_the_peer_notices_nothing_until_it_sends(world: SimWorld) -> None:
    server, client = pair(world)
    await asyncio.sleep(0.1)
    caller = await connect(client)
    server.power_off()
    await asyncio.sleep(3)
    assert caller.events == ["made"]
    server.start()
    await asyncio.sleep(5)
    assert caller.events == ["made"]
    caller.transport.write(b"anybody there?")
    await asyncio.sleep(1)
    assert caller.events == ["made", "lost ConnectionResetError"]


@pytest.mark.parametrize("world", [9], indirect=True)
async def test_a_writer_is_paused_while_its_peer_does_not_read(world: SimWorld) -> None:
    class Deaf(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            reading = cast(asyncio.Transport, transport)
            reading.pause_reading()
            world.loop.call_later(10, reading.resume_reading)

    async def serve(host: SimHost) -> None:
        await asyncio.get_running_loop().create_server(Deaf, None, 7)
        await asyncio.Event().wait()

    server, client = world.host("server", "east"), world.host("client", "west")
    server.start(serve)
    client.start(nothing)
    await asyncio.sleep(0.1)
    caller = await connect(client)
    caller.transport.write(bytes(2 * 1024 * 1024))
    assert caller.events == ["made", "pause"]
    assert caller.transport.get_write_buffer_size() == 1024 * 1024
    await asyncio.sleep(12)
    assert caller.events == ["made", "pause", "resume"]


@pytest.mark.parametrize("world", [10], indirect=True)
async def test_closing_sends_the_written_data_first(world: SimWorld) -> None:
    _, client = pair(world)
    await asyncio.sleep(0.1)
    caller = await connect(client)
    caller.transport.write(b"last words")
    caller.transport.write_eof()
    await asyncio.sleep(1)
    assert caller.got == b"last words"
    assert caller.events == ["made", "eof", "lost"]


def test_an_unhandled_exception_fails_the_run() -> None:
    async def main(host: SimHost) -> None:
        host.world.loop.call_later(1, lambda: 1 // 0)
        await asyncio.Event().wait()

    with SimWorld(11) as world:
        world.host("one", "east").start(main)

        async def scenario() -> None:
            await asyncio.sleep(10)

        with pytest.raises(SimulationFailedError) as caught:
            world.run(scenario())
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_wait_that_nothing_can_end_fails_the_run() -> None:
    with SimWorld(12) as world:

        async def scenario() -> None:
            await asyncio.Event().wait()

        with pytest.raises(SimulationFailedError, match="nothing is left"):
            world.run(scenario())


def in_process(host: SimHost, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start ``work`` in the process of ``host``."""
    return host.spawn(work, "test")


@pytest.mark.parametrize("world", [13], indirect=True)
async def test_metadata_follows_the_network(world: SimWorld) -> None:
    host = world.host("one", "east")
    host.start(nothing)

    async def client() -> None:
        store = host.metadata()
        assert await store.get_all([]) == []
        await store.create("/a", b"1")
        world.cut_region("east")
        with pytest.raises(MetadataUnavailableError):
            await store.get("/a")
        world.heal_region("east")
        assert (await store.get("/a")).data == b"1"
        world.cut_region("west")  # two of three members are still connected
        assert (await store.get("/a")).data == b"1"
        world.cut_region("north")
        with pytest.raises(MetadataUnavailableError):
            await store.put("/a", b"2")

    await in_process(host, client())


@pytest.mark.parametrize("world", [14], indirect=True)
async def test_a_lost_response_leaves_a_write_done_and_its_outcome_unknown(world: SimWorld) -> None:
    host = world.host("one", "east")
    host.start(nothing)

    async def client() -> None:
        store = host.metadata()
        world.metadata.health.lost_answers = 1.0
        with pytest.raises(IndeterminateError):
            await store.create("/done", b"")
        world.metadata.health.lost_answers = 0.0
        world.metadata.health.lost_requests = 1.0
        with pytest.raises(IndeterminateError):
            await store.create("/not-done", b"")
        with pytest.raises(MetadataUnavailableError):
            await store.get("/done")
        assert world.metadata.tree.node("/done") is not None
        assert world.metadata.tree.node("/not-done") is None

    await in_process(host, client())


@pytest.mark.parametrize("world", [15], indirect=True)
async def test_sessions_expire_after_their_ttl_without_contact(world: SimWorld) -> None:
    host, other = world.host("one", "east"), world.host("two", "west")
    host.start(nothing)
    other.start(nothing)
    lost: list[float] = []

    async def client() -> None:
        store = host.metadata()
        session = await store.session(2000)
        session.on_lost(lambda: lost.append(world.loop.now))
        await store.create("/mine", b"", ephemeral=session)

    await in_process(host, client())
    host.pause()
    await asyncio.sleep(1.5)
    assert world.metadata.tree.node("/mine") is not None
    await asyncio.sleep(1.5)
    assert world.metadata.tree.node("/mine") is None
    assert lost == []
    host.resume()
    await asyncio.sleep(1)
    assert len(lost) == 1


@pytest.mark.parametrize("world", [16], indirect=True)
async def test_watches_fire_after_a_change_and_once_after_a_disconnection(world: SimWorld) -> None:
    host, other = world.host("one", "east"), world.host("two", "west")
    host.start(nothing)
    other.start(nothing)
    fired: list[float] = []

    async def watcher() -> None:
        store = host.metadata()
        await store.create("/w", b"")
        store.watch("/w", lambda: fired.append(world.loop.now))

    async def changer() -> None:
        await other.metadata().put("/w", b"new")

    await in_process(host, watcher())
    await in_process(other, changer())
    await asyncio.sleep(1)
    assert len(fired) == 1
    world.cut_region("east")
    await asyncio.sleep(1)
    await in_process(other, changer())
    await asyncio.sleep(1)
    assert len(fired) == 1
    world.heal_region("east")
    await asyncio.sleep(3)
    assert len(fired) == 2


PROGRAM = """
import asyncio, json, sys
from rhumbline.chaos.simulation.world.sim_world import SimWorld
sys.path.insert(0, {folder!r})
from test_sim_world import busy
print(json.dumps(busy(int(sys.argv[1]))))
"""


def busy(seed: int) -> list[Any]:
    """Run a bit of everything and return the digest and the trace."""
    with SimWorld(seed) as world:
        server, client = pair(world)

        async def talk() -> None:
            store = client.metadata()
            caller = await connect(client)
            disk = client.disk("d")
            file = await disk.open("f", create=True)
            for number in range(200):
                caller.transport.write(bytes([number]) * 50)
                await file.write_durable(number * 8, [bytes(8)])
                await store.create(f"/n{number}", b"x")

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            task = client.spawn(talk(), "talk")
            await asyncio.sleep(1)
            world.network.cut("server", "client")
            await asyncio.sleep(1)
            world.network.heal("server", "client")
            await task
            server.kill()
            await asyncio.sleep(5)

        world.run(scenario())
        return [world.trace.digest(), world.trace.lines]


def test_a_seed_gives_one_trace_in_every_process() -> None:
    program = PROGRAM.format(folder=os.path.dirname(__file__))
    runs = []
    for hash_seed in ("1", "77"):
        done = subprocess.run(
            [sys.executable, "-c", program, "5"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            timeout=60,
        )
        runs.append(json.loads(done.stdout))
    assert runs[0] == runs[1]
    assert runs[0] != busy(6)
