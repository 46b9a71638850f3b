"""The console's HTTP interface over a real cluster: documents, events, permissions, refusals."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from rhumbline.access.grant_store import change_grants
from rhumbline.cli.console.cluster.snapshot import SNAPSHOT
from rhumbline.cli.console.serving import running_console
from rhumbline.cli.servers.local_cluster import LocalCluster
from rhumbline.client.connect import Client, connect
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.proxies.config import ProxyConfig
from rhumbline.security.audit import AuditEvent
from rhumbline.security.grants import make_grant
from rhumbline.security.principal import Role
from rhumbline.security.settings import SecuritySettings
from rhumbline.security.token_claims import static_token_line
from rhumbline.server.proxy_host import running_proxy
from rhumbline.server.server_directory import ServerRecord, registered_server
from rhumbline.tests.support.security.certificates import settings_for
from rhumbline.tests.support.security.secured_cluster import NAMESPACE, STREAM, secured
from rhumbline.tls.credentials import TlsCredentials
from rhumbline.tls.protection import UNPROTECTED, Protection

REGIONS = ("bonn", "oslo", "rome")
QUICK_S = 0.2


@asynccontextmanager
async def three_regions(
    root: Path, *, lasts_s: float = 60, allows_actions: bool = False
) -> AsyncIterator[tuple[LocalCluster, Client, str]]:
    """Run three regions with a stream of 50 records, and a console, for a limited time."""
    cluster = LocalCluster(
        root, REGIONS, bookies_per_region=2, round_trips_ms={}, serves_status=True
    )
    async with (
        asyncio.timeout(lasts_s),
        cluster,
        cluster.client("bonn", namespace="shop") as client,
    ):
        policy = StreamPolicy(Quorum(3, 3, 2, 2))
        await create_namespace(client.store, client.runtime, "shop", policy)
        await client.namespace().create_stream("orders")
        async with client.writer("orders") as writer:
            await writer.append_many([b"order %d" % n for n in range(50)])
        async with running_console(
            client,
            host="127.0.0.1",
            port=0,
            interval_s=QUICK_S,
            protection=UNPROTECTED,
            allows_actions=allows_actions,
        ) as url:
            yield cluster, client, url


@asynccontextmanager
async def write_proxy(client: Client) -> AsyncIterator[ServerRecord]:
    """Run a write proxy in the region of the client, as the command does."""
    async with running_proxy(
        client, ProxyConfig(), roles=("write",), host="127.0.0.1", port=0, status_port=0
    ) as proxy:
        found = ServerRecord(
            "write-proxy", proxy.address, proxy.status_address, client.region or ""
        )
        async with registered_server(client.store, client.runtime, found):
            yield found


async def events(browser: httpx.AsyncClient, path: str) -> AsyncIterator[tuple[str, Any]]:
    """Yield the server-sent events of a response."""
    async with browser.stream("GET", path) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        kind = ""
        async for line in response.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)


async def test_the_latency_of_streams_is_that_which_their_proxies_measure(tmp_path: Path) -> None:
    async with (
        three_regions(tmp_path) as (_, client, url),
        write_proxy(client) as proxy,
        connect(f"grpc://{proxy.address}", namespace="shop") as application,
        httpx.AsyncClient(base_url=url, timeout=20) as browser,
    ):
        await client.namespace().create_stream("idle")
        async with application.writer("orders") as writer:
            for n in range(6):
                await writer.append(b"order %d" % n)
                await asyncio.sleep(0.11)  # at most one add in 0.1 s is timed
            idle, orders = (await browser.get("/api/streams")).json()["streams"]
            place = {"namespace": "shop", "stream": "orders"}
            stream = (await browser.get("/api/stream", params=place)).json()
            async for _, shown in events(browser, "/api/events"):
                if shown.get("add_times"):
                    break
        assert orders["owner"] == stream["owner"] == proxy.address
        for one in (orders, stream):
            assert 0 < one["append_p50_ms"] <= one["append_p99_ms"]
        assert idle["owner"] is None and idle["append_p99_ms"] is None
        assert set(shown["add_times"]) <= {f"bonn>{region}" for region in REGIONS}


async def test_documents_events_and_tails_show_a_cluster(tmp_path: Path) -> None:
    async with (
        three_regions(tmp_path) as (cluster, client, url),
        httpx.AsyncClient(base_url=url, timeout=20) as browser,
    ):
        page = await browser.get("/")
        assert (
            page.status_code == 200
            and "default-src 'none'" in page.headers["content-security-policy"]
        )
        assert (await browser.get("/pages/../serving.py")).status_code == 404
        assert (await browser.get("/api/schema")).json() == SNAPSHOT

        following = events(browser, "/api/events")
        kind, shown = await anext(following)
        assert kind == "snapshot" and set(shown["regions"]) == set(REGIONS)
        assert all(one["round_trip_ms"] > 0 for one in shown["regions"].values())
        gone = next(local for local in cluster.bookies if local.region == "oslo")
        assert gone.bookie is not None
        await gone.bookie.aclose()
        mode = None
        while mode != "down":
            kind, patch = await anext(following)
            mode = patch.get("servers", {}).get(gone.bookie.bookie_id, {}).get("mode")
        assert kind == "patch"

        listed = (await browser.get("/api/streams", params={"search": "ORD"})).json()
        assert [row["stream"] for row in listed["streams"]] == ["orders"]
        assert listed["streams"][0]["records"] == 50 and listed["total"] == 1
        place = {"namespace": "shop", "stream": "orders"}
        stream = (await browser.get("/api/stream", params=place)).json()
        assert stream["records"] == 50 and stream["quorum"] == "3/3/2/R2"
        assert set(stream["segments"][0]["copies"].values()) == set(REGIONS)

        asked = (await browser.get("/api/durability?lose=bonn&lose=rome")).json()
        assert asked["after"]["ledgers_that_may_lose"] == 1
        assert asked["streams"][0]["stream"] == "shop/orders"
        assert (await browser.get("/api/durability?lose=paris")).status_code == 400
        traced = (await browser.get("/api/record", params={**place, "position": "1:0:3"})).json()
        assert traced["payload"] == "order 3"
        copies = traced["stored"]["copies"]
        assert {one["state"] for one in copies if one["region"] != "oslo"} == {"holds it"}
        work = (await browser.get("/api/operations")).json()
        assert work["drains"] == [] and "no repair process" in work["repair"][0]["obstacle"]
        assert [one["target"] for one in work["down"]] == [gone.bookie.bookie_id]

        wanted = str(httpx.QueryParams({**place, "filter": "NEW É"}))
        tail = events(browser, f"/api/tail?{wanted}")
        async with asyncio.timeout(3):
            _, first = await anext(tail)
        assert first["position"] and not first["records"], "a pause is possible at once"
        async with client.writer("orders") as writer:
            await writer.append_many([b"old 51", "new É 52".encode()])
        found, position = await _first_records(tail)
        assert [one["payload"] for one in found] == ["new É 52"]
        async with client.writer("orders") as writer:
            await writer.append(b"53")
        after = str(httpx.QueryParams(after=position))
        later = events(browser, f"/api/tail?namespace=shop&stream=orders&{after}")
        found, _ = await _first_records(later)
        assert [one["payload"] for one in found] == ["53"], "nothing is missed after a pause"


async def _first_records(tail: AsyncIterator[tuple[str, Any]]) -> tuple[list[Any], str]:
    async for _, event in tail:
        if event["records"]:
            return event["records"], event["position"]
    raise AssertionError("the tail ended")


BAD_REQUESTS = {
    "/api/stream?namespace=shop&stream=none": 404,
    "/api/stream?namespace=none&stream=none": 404,
    "/api/stream?namespace=shop": 400,
    "/api/streams?limit=1000": 400,
    "/api/streams?offset=-1": 400,
    "/api/tail?namespace=shop&stream=orders&after=x": 400,
    f"/api/streams?search={'x' * 201}": 400,
    f"/api/durability?{'lose=a&' * 65}": 400,
    "/api/other": 404,
}


async def test_requests_are_checked_and_answered_with_a_code(tmp_path: Path) -> None:
    async with (
        three_regions(tmp_path) as (_, client, url),
        httpx.AsyncClient(base_url=url, timeout=20) as browser,
    ):
        for path, status in BAD_REQUESTS.items():
            found = await browser.get(path)
            assert found.status_code == status, path
            assert found.headers["x-content-type-options"] == "nosniff"
        assert (await browser.post("/api/streams")).status_code == 405
        assert (await browser.post("/api/action", json={})).status_code == 404, "rule CON-5"
        stranger = await browser.get("/api/session", headers={"Host": "evil.example"})
        assert stranger.status_code == 421, "rule CON-4"
        with pytest.raises(ConfigurationError, match="without TLS"):
            async with running_console(
                client, host="0.0.0.0", port=0, interval_s=1, protection=UNPROTECTED
            ):
                raise AssertionError("it must not listen")
        with pytest.raises(ConfigurationError, match="choose another --port"):
            async with running_console(
                client,
                host="127.0.0.1",
                port=int(url.rpartition(":")[2].strip("/")),
                interval_s=1,
                protection=UNPROTECTED,
            ):
                raise AssertionError("it must not listen")
        grants = Protection(security=SecuritySettings(access_control=True))
        with pytest.raises(ConfigurationError, match="callers are unknown"):
            async with running_console(
                client, host="127.0.0.1", port=0, interval_s=1, protection=grants
            ):
                raise AssertionError("it must not listen")


class _Events:
    """Keeps audit events."""

    def __init__(self) -> None:
        self.kept: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.kept.append(event)


async def test_visitors_see_what_grants_allow(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(static_token_line("ann", "token-of-ann", [Role.CLIENT]) + "\n")
    security = SecuritySettings(
        static_tokens=str(tokens), access_control=True, grants_refresh_ms=100
    )
    kept = _Events()
    async with asyncio.timeout(60), secured(tmp_path) as made:
        tls = settings_for(made.authority, "console", Role.PROXY, proxy_client_certificates=False)
        protection = Protection(TlsCredentials(tls), security, kept)
        without_certificate = ssl.create_default_context(cafile=made.authority.certificate_file)
        async with (
            made.cluster.client("oslo", namespace=NAMESPACE) as client,
            running_console(
                client, host="127.0.0.1", port=0, interval_s=QUICK_S, protection=protection
            ) as url,
            httpx.AsyncClient(base_url=url, verify=without_certificate, timeout=20) as nobody,
        ):
            assert url.startswith("https://")
            name: dict[str, Any] = {"extensions": {"sni_hostname": tls.server_name}}
            ann: dict[str, Any] = {"headers": {"Authorization": "Bearer token-of-ann"}, **name}

            async def status(path: str, who: dict[str, Any]) -> int:
                return (await nobody.get(path, **who)).status_code

            of_stream = f"/api/stream?namespace={NAMESPACE}&stream={STREAM}"
            bad: dict[str, Any] = {"headers": {"Authorization": "Bearer wrong"}, **name}
            assert await status("/api/session", name) == 401
            assert await status("/api/session", bad) == 401
            session = (await nobody.get("/api/session", **ann)).json()
            assert session == {"principal": "ann", "sees_cluster": False, "may_act": False}
            for path in ("/api/events", "/api/durability", of_stream):
                assert await status(path, ann) == 403
            assert (await nobody.get("/api/streams", **ann)).json()["streams"] == []

            async def change(action: str, actions: list[str], resource: str) -> None:
                one = make_grant("ann", actions, resource)
                await change_grants(client.store, lambda table: getattr(table, action)(one))
                await asyncio.sleep(0.5)

            await change("granted", ["read"], f"stream:{NAMESPACE}/{STREAM}")
            assert await status(of_stream, ann) == 200
            listed = (await nobody.get("/api/streams", **ann)).json()
            assert [row["stream"] for row in listed["streams"]] == [STREAM]
            assert listed["total"] is None, "nor is the number of other streams shown"
            assert await status("/api/events", ann) == 403

            await change("granted", ["read"], "cluster")
            async with nobody.stream("GET", "/api/events", **ann) as response:
                lines = response.aiter_lines()
                assert await anext(lines) == "event: snapshot"
                await change("revoked", ["read"], "cluster")
                rest = [line async for line in lines]
            assert "event: refused" in rest, "rule CON-3"

            await change("granted", ["read"], "cluster")
            async with nobody.stream("GET", "/api/events", **ann) as response:
                lines = response.aiter_lines()
                assert await anext(lines) == "event: snapshot"
                tokens.write_text(static_token_line("bob", "token-of-bob", [Role.CLIENT]) + "\n")
                last = [line async for line in lines if line][-1]
            assert '"code":"unauthorized"' in last, "rule CON-3"
    refused = {(one.principal, one.resource, one.error) for one in kept.kept}
    assert ("ann", "cluster", "permission-denied") in refused
    assert ("anonymous", "", "unauthorized") in refused
