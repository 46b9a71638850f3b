"""The status server answers probes, and ignores invalid requests."""

import asyncio
import resource
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus

import pytest

from rhumbline.server.status_server import CONNECTIONS_MAX, StatusServer, fetch_status


def with_server(request: Callable[[int], Awaitable[None]], reason: str | None = None) -> None:
    async def run() -> None:
        server = StatusServer(lambda: {"entries": 7}, lambda: reason)
        async with asyncio.timeout(120):
            try:
                await request(await server.start("127.0.0.1", 0))
            finally:
                await server.aclose()

    asyncio.run(run())


def test_statistics_and_liveness_are_served() -> None:
    async def request(port: int) -> None:
        assert await fetch_status("127.0.0.1", port, "/stat", timeout_ms=5000) == {"entries": 7}
        assert (await fetch_status("127.0.0.1", port, "/livez", timeout_ms=5000))["alive"]
        assert (await fetch_status("127.0.0.1", port, "/readyz", timeout_ms=5000))["ready"]

    with_server(request)


def test_service_that_is_not_ready_reports_the_reason() -> None:
    async def request(port: int) -> None:
        answer = await fetch_status("127.0.0.1", port, "/readyz", timeout_ms=5000)
        assert answer == {"ready": False, "reason": "the disk is full"}

    with_server(request, "the disk is full")
    server = StatusServer(dict, lambda: "the disk is full")
    assert server.respond("GET", "/readyz")[0] is HTTPStatus.SERVICE_UNAVAILABLE
    assert server.respond("POST", "/livez")[0] is HTTPStatus.METHOD_NOT_ALLOWED
    assert server.respond("GET", "/x")[0] is HTTPStatus.NOT_FOUND


def test_streams_are_asked_for_by_name() -> None:
    asked: list[list[str]] = []

    def of_streams(names: Sequence[str]) -> Mapping[str, object]:
        asked.append(list(names))
        return {"shop/a b": {"p99_ms": 3.0}}

    server = StatusServer(dict, lambda: None, streams=of_streams)
    found = server.respond("GET", "/streams?name=shop%2Fa+b&name=shop%2Fc")
    assert found == (HTTPStatus.OK, {"shop/a b": {"p99_ms": 3.0}})
    assert server.respond("GET", "/streams")[0] is HTTPStatus.OK
    assert asked == [["shop/a b", "shop/c"], []]
    assert StatusServer(dict, lambda: None).respond("GET", "/streams")[0] is HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("request_", [b"\r\n\r\n", b"x" * 20_000, b"\xff\x00\r\n\r\n", b""])
def test_invalid_request_gets_no_response(request_: bytes) -> None:
    async def request(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_)
        writer.write_eof()
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()

    with_server(request)


def test_connection_without_a_request_is_closed_after_a_while() -> None:
    async def run() -> None:
        server = StatusServer(dict, lambda: None, request_seconds_max=0.05)
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HT")
        async with asyncio.timeout(60):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        assert server.connection_count == server.evicted_count == 0
        writer.close()
        await server.aclose()

    asyncio.run(run())


IDLE = 2_000


def test_probe_is_answered_despite_thousands_of_idle_connections(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def request(port: int) -> None:
        idle = []
        loop = asyncio.get_running_loop()
        for _ in range(IDLE):
            one = socket.socket()
            idle.append(one)
            one.setblocking(False)
            await loop.sock_connect(one, ("127.0.0.1", port))
        began = loop.time()
        answer = await fetch_status("127.0.0.1", port, "/readyz", timeout_ms=60_000)
        with capsys.disabled():
            print(f"/readyz beside {IDLE} idle connections: {(loop.time() - began) * 1000:.1f} ms")
        assert answer == {"ready": True}
        for one in idle:
            one.close()

    with enough_files(IDLE + 2 * CONNECTIONS_MAX):
        with_server(request)


def test_oldest_connection_without_a_request_makes_room_for_a_new_one() -> None:
    async def run() -> None:
        server = StatusServer(dict, lambda: None)
        port = await server.start("127.0.0.1", 0)
        pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX)]
        while server.connection_count < CONNECTIONS_MAX:  # noqa: ASYNC110 - from outside
            await asyncio.sleep(0.001)
        assert (await fetch_status("127.0.0.1", port, "/livez", timeout_ms=60_000))["alive"]
        assert server.evicted_count == 1
        reader, _ = pairs[0]
        with suppress(ConnectionError):
            assert await reader.read() == b"", "the oldest one is closed"
        _, writer = pairs[1]
        writer.write(b"GET /livez HTTP/1.1\r\n\r\n")
        assert b"200 OK" in await pairs[1][0].read(), "the next one is served"
        for _, writer in pairs:
            writer.close()
        await server.aclose()

    with enough_files(4 * CONNECTIONS_MAX):
        asyncio.run(run())


@contextmanager
def enough_files(count: int) -> Iterator[None]:
    """Raise the limit of open files; skip the test if the machine does not permit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, count + 100)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"at most {hard} open files are permitted here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_known_statistics_are_metrics_named_by_their_path() -> None:
    figures = {
        "address": "x:1",
        "registered": True,
        "write": {"streams": 3, "acquired": 4},
    }
    server = StatusServer(lambda: figures, lambda: None, service="proxy")
    assert [line for line in server.metrics().decode().splitlines() if line[0] != "#"][:4] == [
        "rhumbline_proxy_ready 1.0",
        "rhumbline_proxy_registered 1.0",
        "rhumbline_proxy_write_streams 3.0",
        "rhumbline_proxy_write_acquired_total 4.0",
    ]


def test_metrics_are_served_as_prometheus_text() -> None:
    async def request(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert b"200 OK" in head and b"Content-Type: text/plain; version=0.0.4" in head
        assert body.splitlines()[2] == b"rhumbline_bookie_ready 1.0"
        assert body.splitlines()[3:6] == [
            b"# HELP rhumbline_bookie_entries Entries stored.",
            b"# TYPE rhumbline_bookie_entries gauge",
            b"rhumbline_bookie_entries 7.0",
        ]
        writer.close()

    with_server(request)
