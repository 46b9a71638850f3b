"""Rows of streams: the times of appends come from the proxies that serve the streams."""

from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import parse_qs

import pytest

from rhumbline.cli.console.streams import stream_view
from rhumbline.cli.console.streams.stream_view import StreamView
from rhumbline.cli.overview.status_documents import StatusDocument
from rhumbline.client.connect import Client
from rhumbline.core.protocol.errors import MetadataUnavailableError
from rhumbline.server.server_directory import ServerRecord
from rhumbline.server.status_server import REQUEST_BYTES_MAX


class NoClient:
    """A client without a store, for a view that reads nothing from it."""

    store = None


def rows_of(owners: Sequence[str | None]) -> list[dict[str, Any]]:
    """Return rows of streams with names as long as possible."""
    return [
        {"namespace": "n" * 200, "stream": f"{number:0200}", "owner": owner}
        for number, owner in enumerate(owners)
    ]


def view() -> StreamView:
    return StreamView(cast("Client", cast("Any", NoClient())))


async def test_each_proxy_is_asked_for_its_streams_in_requests_that_it_accepts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, int]] = []

    async def servers(_: object) -> list[ServerRecord]:
        return [ServerRecord("write-proxy", f"p{n}:1", f"p{n}:2", "eu") for n in (1, 2)]

    async def read(address: tuple[str, int], path: str) -> StatusDocument:
        assert len(path) < REQUEST_BYTES_MAX - 500, "room for the head of the request"
        names = parse_qs(path.partition("?")[2])["name"]
        asked.append((address[0], len(names)))
        return StatusDocument({one: {"p50_ms": 1.0, "p99_ms": 2.0} for one in names}, None)

    monkeypatch.setattr(stream_view, "list_servers", servers)
    monkeypatch.setattr(stream_view, "read_status", read)
    rows = rows_of([*["p1:1"] * 30, "p2:1", None])
    await view()._add_latencies(rows)
    assert sum(count for host, count in asked if host == "p1") == 30
    assert [count for host, count in asked if host == "p2"] == [1]
    assert all((one["append_p50_ms"], one["append_p99_ms"]) == (1.0, 2.0) for one in rows[:31])
    assert rows[31]["append_p99_ms"] is None, "no proxy serves it"


async def test_times_are_unknown_while_the_metadata_store_does_not_respond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def servers(_: object) -> list[ServerRecord]:
        raise MetadataUnavailableError("away")

    monkeypatch.setattr(stream_view, "list_servers", servers)
    rows = rows_of(["p1:1"])
    await view()._add_latencies(rows)
    assert rows[0]["append_p50_ms"] is None and rows[0]["append_p99_ms"] is None
