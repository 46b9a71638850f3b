"""Tests of the relay with real sockets: delays, order, cut and heal, backpressure."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import uvloop

from rhumbline.cli.servers.relay import HELD_BYTES_MAX, Relay

Scenario = Callable[[Relay, int], Awaitable[None]]


def run_with_echo_server(scenario: Scenario, *, delay_ms: int, back_ms: int | None = None) -> None:
    """Run a scenario with a relay in front of an echo server."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        relay = Relay(server.sockets[0].getsockname()[:2], delay_ms=delay_ms, back_ms=back_ms)
        async with asyncio.timeout(120), server, relay:
            await scenario(relay, await relay.start())

    # uvloop has its own transports, and the relay is used with both event loops
    for factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(run())


def test_each_direction_is_delayed() -> None:
    async def scenario(relay: Relay, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        started = time.monotonic()
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        took_ms = (time.monotonic() - started) * 1000
        assert took_ms >= 69
        assert (relay.bytes_to_server, relay.bytes_from_server) == (5, 5)
        writer.close()

    run_with_echo_server(scenario, delay_ms=20, back_ms=50)


def test_order_is_kept_when_the_delay_shrinks() -> None:
    async def scenario(relay: Relay, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        sent = b""
        for number in range(50):
            relay.delay_ms = relay.back_ms = 40 - number % 40
            part = number.to_bytes(4, "big")
            sent += part
            writer.write(part)
            await asyncio.sleep(0.001)
        assert await reader.readexactly(len(sent)) == sent
        writer.close()

    run_with_echo_server(scenario, delay_ms=40)


def test_a_cut_holds_all_bytes_and_healing_delivers_them() -> None:
    async def scenario(relay: Relay, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"before")
        assert await reader.readexactly(6) == b"before"
        relay.cut()
        writer.write(b"during")
        late_reader, late_writer = await asyncio.open_connection("127.0.0.1", port)
        late_writer.write(b"late")
        held = asyncio.ensure_future(reader.readexactly(6))
        late = asyncio.ensure_future(late_reader.readexactly(4))
        done, _ = await asyncio.wait([held, late], timeout=0.1)
        assert not done
        relay.heal()
        assert await held == b"during"
        assert await late == b"late"
        writer.close()
        late_writer.close()

    run_with_echo_server(scenario, delay_ms=1)


def test_a_reset_aborts_the_connections() -> None:
    async def scenario(relay: Relay, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x")
        await reader.readexactly(1)
        relay.reset()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()

    run_with_echo_server(scenario, delay_ms=0)


async def test_a_missing_server_aborts_the_clients_connection() -> None:
    async with asyncio.timeout(120), Relay(None, delay_ms=1) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", await relay.start())
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


def test_eof_in_one_direction_leaves_the_other_open() -> None:
    async def scenario(relay: Relay, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"all of it")
        writer.write_eof()
        assert await reader.read() == b"all of it"
        writer.close()

    run_with_echo_server(scenario, delay_ms=5)


def test_a_slow_reader_causes_backpressure_and_no_data_is_lost() -> None:
    size = 3 * HELD_BYTES_MAX

    async def scenario(relay: Relay, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)

        async def send() -> None:
            for _ in range(size // 65536):
                writer.write(bytes(65536))
                await writer.drain()
            writer.write_eof()

        sending = asyncio.ensure_future(send())
        await asyncio.sleep(0.2)
        received = 0
        while data := await reader.read(1 << 20):
            received += len(data)
        await sending
        assert received == size == relay.bytes_to_server == relay.bytes_from_server
        writer.close()

    run_with_echo_server(scenario, delay_ms=2)
