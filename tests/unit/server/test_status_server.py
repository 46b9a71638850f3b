"""The status server: probes get true answers, and nonsense gets none."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus

import pytest

from rhumbline.server.status_server import StatusServer, fetch_status


def with_server(story: Callable[[int], Awaitable[None]], reason: str | None = None) -> None:
    async def run() -> None:
        server = StatusServer(lambda: {"entries": 7}, lambda: reason)
        async with asyncio.timeout(20):
            try:
                await story(await server.start("127.0.0.1", 0))
            finally:
                await server.aclose()

    asyncio.run(run())


def test_figures_and_liveness_are_served() -> None:
    async def story(port: int) -> None:
        assert await fetch_status("127.0.0.1", port, "/stat", timeout_ms=5000) == {"entries": 7}
        assert (await fetch_status("127.0.0.1", port, "/livez", timeout_ms=5000))["alive"]
        assert (await fetch_status("127.0.0.1", port, "/readyz", timeout_ms=5000))["ready"]

    with_server(story)


def test_a_service_that_is_not_ready_says_why() -> None:
    async def story(port: int) -> None:
        answer = await fetch_status("127.0.0.1", port, "/readyz", timeout_ms=5000)
        assert answer == {"ready": False, "reason": "the disk is full"}

    with_server(story, "the disk is full")
    server = StatusServer(dict, lambda: "the disk is full")
    assert server.answer("GET", "/readyz")[0] is HTTPStatus.SERVICE_UNAVAILABLE
    assert server.answer("POST", "/livez")[0] is HTTPStatus.METHOD_NOT_ALLOWED
    assert server.answer("GET", "/x")[0] is HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("request_", [b"\r\n\r\n", b"x" * 20_000, b"\xff\x00\r\n\r\n", b""])
def test_what_is_no_request_gets_no_answer(request_: bytes) -> None:
    async def story(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_)
        writer.write_eof()
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()

    with_server(story)


def test_every_known_number_is_a_metric_named_by_its_path() -> None:
    figures = {
        "address": "x:1",
        "registered": True,
        "write": {"streams": 3, "taken": 4},
    }
    server = StatusServer(lambda: figures, lambda: None, service="proxy")
    assert [line for line in server.metrics().splitlines() if line[0] != "#"] == [
        "rhumbline_proxy_ready 1",
        "rhumbline_proxy_registered 1",
        "rhumbline_proxy_write_streams 3",
        "rhumbline_proxy_write_taken_total 4",
    ]


def test_prometheus_gets_text() -> None:
    async def story(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert b"200 OK" in head and b"Content-Type: text/plain; version=0.0.4" in head
        assert body.splitlines()[2] == b"rhumbline_bookie_ready 1"
        assert body.splitlines()[3:] == [
            b"# HELP rhumbline_bookie_entries Entries that it holds.",
            b"# TYPE rhumbline_bookie_entries gauge",
            b"rhumbline_bookie_entries 7",
        ]
        writer.close()

    with_server(story)
