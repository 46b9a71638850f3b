"""Three write proxies as processes even a skewed load; nothing is lost or stored twice.

All hot streams have the same default owner. The pause of a move is the longest time of an append to
a moved stream; it is printed.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rhumbline.client.connect import connect, connect_proxies
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.proxies.client.proxy_client import ProxyClient
from rhumbline.proxies.rendezvous import preference
from rhumbline.tests.support.processes.process_cluster import ProcessCluster, succeeded
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy

REGION = "east"
HOT, COLD = 6, 3
RATE = 40.0
"""Records per second of each hot stream; a cold one has one."""
SECONDS = 13.0
POLICY = StreamPolicy(quorum=Quorum(2, 2, 2), flush=FlushPolicy(period_ms=0))
SETTINGS = (
    "--set", "proxy.balance_ms=500",
    "--set", "proxy.balance_stay_ms=2000",
)  # fmt: skip

Running = tuple[ProcessCluster, list[ClusterProxy]]

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ProcessCluster, list[ClusterProxy]]]:
    root = Path(tmp_path_factory.mktemp("balance")) / "cluster"
    with ProcessCluster(root, [REGION] * 2) as cluster, ExitStack() as closing:
        started = [
            ClusterProxy(cluster, "write-proxy", f"w{number}", *SETTINGS, "--status-port", "0")
            for number in range(3)
        ]
        for proxy in started:
            closing.push(proxy.__exit__)
            proxy.launch()
        for proxy in started:
            proxy.wait_ready()
        yield cluster, started


class Producer:
    """Appends numbered records to one stream at a rate, and notes the slowest append."""

    def __init__(self, stream: str, rate: float) -> None:
        self.stream = stream
        self.rate = rate
        self.acked: list[bytes] = []
        self.slowest_s = 0.0

    async def run(self, client: ProxyClient, end: float) -> None:
        async with client.writer(self.stream) as writer:
            while time.monotonic() < end:
                began = time.monotonic()
                payload = b"%d" % len(self.acked)
                await writer.append(payload)
                self.acked.append(payload)
                took = time.monotonic() - began
                if len(self.acked) > 5:  # the first one waits for the first takeover
                    self.slowest_s = max(self.slowest_s, took)
                await asyncio.sleep(max(0.0, 1 / self.rate - took))


def chosen_streams(addresses: list[str]) -> tuple[list[str], list[str]]:
    """Return names of hot streams, all with one default owner, and of cold ones with another."""
    hot: list[str] = []
    cold: list[str] = []
    for number in range(1_000):
        name = f"s{number}"
        is_first = preference(f"default/{name}", addresses)[0] == addresses[0]
        (hot if is_first else cold).append(name)
    return hot[:HOT], cold[:COLD]


async def test_three_proxies_even_a_skewed_load(
    running: Running,
) -> None:
    cluster, proxies = running
    metadata = cluster.metadata
    addresses = sorted(proxy.address for proxy in proxies)
    hot, cold = chosen_streams(addresses)
    producers = [Producer(s, RATE) for s in hot] + [Producer(s, 1.0) for s in cold]
    async with connect_proxies("grpc://" + ",".join(addresses)) as client:
        for producer in producers:
            await client.namespace().create_stream(producer.stream, POLICY, home_region=REGION)
        end = time.monotonic() + SECONDS
        await asyncio.gather(*(producer.run(client, end) for producer in producers))

    def listed(*command: str) -> list[dict[str, Any]]:
        found = json.loads(succeeded("proxy", *command, "-u", metadata, "--output", "json"))
        assert isinstance(found, list)
        return found

    assigned = {row["stream"].partition("/")[2]: row["address"] for row in listed("assignments")}
    by_proxy = {address: 0 for address in addresses}
    for stream in hot:
        by_proxy[assigned.get(stream, addresses[0])] += 1
    print(f"hot streams by proxy: {sorted(by_proxy.values())}, loads: "
          f"{[row['load'] for row in listed('ls', '--role', 'write')]}")  # fmt: skip
    assert max(by_proxy.values()) <= 3, by_proxy
    assert len([count for count in by_proxy.values() if count]) == 3
    assert listed("balance", "--plan") == []

    moved = [producer for producer in producers if producer.stream in assigned]
    pauses_ms = sorted(1000 * producer.slowest_s for producer in moved)
    print("pauses of moved streams:", ", ".join(f"{pause:.0f} ms" for pause in pauses_ms))
    usual_ms = max(1000 * producer.slowest_s for producer in producers if producer not in moved)
    print(f"slowest append to the other streams: {usual_ms:.0f} ms")

    async with connect(metadata, region=REGION) as core:
        for producer in producers:
            async with core.reader(producer.stream, EARLIEST) as reader:
                found = [(await anext(reader)).payload for _ in producer.acked]
            assert found == producer.acked, producer.stream
    print(f"{sum(len(producer.acked) for producer in producers)} records: 0 lost, 0 stored twice")
