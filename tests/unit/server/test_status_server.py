"""The status server answers probes, and ignores invalid requests."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus

import pytest

from rhumbline.server.status_server import StatusServer, fetch_status


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


def test_known_statistics_are_metrics_named_by_their_path() -> None:
    figures = {
        "address": "x:1",
        "registered": True,
        "write": {"streams": 3, "taken": 4},
    }
    server = StatusServer(lambda: figures, lambda: None, service="proxy")
    assert [line for line in server.metrics().decode().splitlines() if line[0] != "#"][:4] == [
        "rhumbline_proxy_ready 1.0",
        "rhumbline_proxy_registered 1.0",
        "rhumbline_proxy_write_streams 3.0",
        "rhumbline_proxy_write_taken_total 4.0",
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
