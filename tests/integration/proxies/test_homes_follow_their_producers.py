"""A stream whose producers are in another region: the suggestion, and the move within the limit."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rhumbline.client.connect import connect_proxies
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.proxies.client.proxy_client import ProxyClient
from rhumbline.tests.support.processes.process_cluster import ProcessCluster, rhumbline
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy

POLICY = StreamPolicy(quorum=Quorum(2, 2, 2, 2))
WINDOW_S = 8
SETTINGS = ("--set", f"proxy.home_window_ms={WINDOW_S}s", "--set", "proxy.balance_ms=500ms")

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path / "cluster", ("east", "west")) as started:
        yield started


def suggestion(cluster: ProcessCluster) -> dict[str, Any] | None:
    """Return what the command prints; None if no proxy owns the stream, because it is moving."""
    asked = rhumbline(
        "stream", "home", "s", "--suggest", "-u", cluster.metadata, "--region", "east", "-o", "json"
    )
    if b"no proxy owns stream s" in asked.stderr:
        return None
    assert asked.returncode == 0, asked.stderr.decode()
    found: dict[str, Any] = json.loads(asked.stdout)
    return found


async def suggestion_when(
    cluster: ProcessCluster, is_wanted: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Ask until the suggestion is as wanted, and return it."""
    while True:
        found = await asyncio.to_thread(suggestion, cluster)
        if found is not None and is_wanted(found):
            return found


async def produce(client: ProxyClient, is_over: asyncio.Event) -> int:
    """Append numbers, each after the one before; return how many."""
    sent = 0
    async with client.writer("s") as writer:
        while not is_over.is_set():
            await writer.append(b"%d" % sent)
            sent += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await is_over.wait()
    return sent


async def test_the_home_moves_to_the_region_of_the_producers(cluster: ProcessCluster) -> None:
    with (
        ClusterProxy(cluster, "write-proxy", "p-east", "--with-read", *SETTINGS,
                     "--set", "proxy.home_moves_per_hour=1", region="east") as east,
        ClusterProxy(cluster, "write-proxy", "p-west", "--with-read", *SETTINGS,
                     region="west") as west,
    ):  # fmt: skip
        async with (
            asyncio.timeout(100),
            connect_proxies(f"grpc://{west.address}") as client,
        ):
            await client.namespace().create_stream("s", POLICY, home_region="east")
            is_over = asyncio.Event()
            producer = asyncio.create_task(produce(client, is_over))
            before = await suggestion_when(cluster, lambda found: bool(found["writers"]))
            assert before["owner"] == east.address
            assert before["home_region"] == before["owner_region"] == "east"
            (written,) = before["writers"]
            assert written["region"] == "west", "that of the nearest proxy"
            assert written["wan_round_trips"] == 1
            after = await suggestion_when(
                cluster, lambda found: found["owner_region"] == "west" and bool(found["writers"])
            )
            assert after["home_region"] == "west"
            assert after["writers"][0]["wan_round_trips"] == 0
            is_over.set()
            sent = await producer
            await client.namespace().end_stream("s")
            async with client.reader("s") as reader:
                payloads = [record.payload async for record in reader]
        assert payloads == [b"%d" % number for number in range(sent)]
        assert "home moved" in east.output
        assert "home moved" not in west.output
    for found in (before, after):
        print(json.dumps(found, indent=1))
