"""A stream whose producers are in another region: the suggestion, and the move within the limit."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rhumbline.client.connect import connect_proxies
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.support.processes.process_cluster import ProcessCluster, succeeded
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy

POLICY = StreamPolicy(quorum=Quorum(2, 2, 2, 2))
WINDOW_S = 4
SETTINGS = ("--set", f"proxy.home_window_ms={WINDOW_S}s", "--set", "proxy.balance_ms=500ms")

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path / "cluster", ("east", "west")) as started:
        yield started


def suggestion(cluster: ProcessCluster) -> dict[str, Any]:
    printed = succeeded(
        "stream", "home", "s", "--suggest", "-u", cluster.metadata, "--region", "east", "-o", "json"
    )
    found: dict[str, Any] = json.loads(printed)
    return found


async def test_the_home_moves_to_the_region_of_the_producers(cluster: ProcessCluster) -> None:
    with (
        ClusterProxy(cluster, "write-proxy", "p-east", "--with-read", *SETTINGS,
                     "--set", "proxy.home_moves_per_hour=1", region="east") as east,
        ClusterProxy(cluster, "write-proxy", "p-west", "--with-read", *SETTINGS,
                     region="west") as west,
    ):  # fmt: skip
        for proxy in (east, west):
            proxy.launch()
        for proxy in (east, west):
            proxy.wait_ready()
        async with (
            asyncio.timeout(100),
            connect_proxies(f"grpc://{west.address}") as client,
        ):
            await client.namespace().create_stream("s", POLICY, home_region="east")
            sent = 0
            async with client.writer("s") as writer:
                await writer.append(b"%d" % sent)
                first = await asyncio.to_thread(suggestion, cluster)
                assert first["home_region"] == first["owner_region"] == "east"
                assert first["owner"] == east.address
                (written,) = first["writers"]
                assert written["region"] == "west", "that of the nearest proxy"
                assert written["wan_round_trips"] == 1
                assert first["suggested_region"] is None
                home = "east"
                while home == "east":
                    sent += 1
                    await writer.append(b"%d" % sent)
                    if sent % 100 == 0:
                        home = (await asyncio.to_thread(suggestion, cluster))["home_region"]
                    await asyncio.sleep(0.01)
                owner_region = ""
                while owner_region != "west":
                    sent += 1
                    await writer.append(b"%d" % sent)
                    if sent % 50 == 0:
                        found = await asyncio.to_thread(suggestion, cluster)
                        owner_region = found["owner_region"] or ""
                    await asyncio.sleep(0.01)
            await client.namespace().end_stream("s")
            async with client.reader("s") as reader:
                payloads = [record.payload async for record in reader]
        assert payloads == [b"%d" % number for number in range(sent + 1)]
        assert "home moved" in east.output
        assert "home moved" not in west.output
    print(json.dumps(found, indent=1))
