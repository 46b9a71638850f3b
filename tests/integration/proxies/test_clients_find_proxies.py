"""A client finds proxies by SRV records, and connects at the addresses for its region.

The proxy of east advertises a relay with a delay to clients of west. A client of west therefore
pays one round trip more for each append to a stream whose home is east than to one whose home is
west. The times are printed.
"""

import asyncio
import statistics
from pathlib import Path

import pytest

from rhumbline.cli.servers.relay import Relay
from rhumbline.client.connect import connect_proxies
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.proxies.client.discovery.config import DiscoveryConfig
from rhumbline.proxies.client.proxy_client import ProxyClient
from rhumbline.tests.support.processes.process_cluster import ProcessCluster
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy
from rhumbline.tests.support.servers.dns_server import dns_server

SERVICE = "_rhumbline._tcp.example.com"
ONE_WAY_MS = 40
APPENDS = 30
POLICY = StreamPolicy(quorum=Quorum(2, 2, 2, 2))

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]


async def append_ms(client: ProxyClient, home: str) -> float:
    """Return the median time of an append to a stream with this home region, in ms."""
    loop = asyncio.get_running_loop()
    await client.namespace().create_stream(home, POLICY, home_region=home)
    took = []
    async with client.writer(home) as writer:
        await writer.append(b"first")
        for _ in range(APPENDS):
            began_at = loop.time()
            await writer.append(b"x")
            took.append(1000 * (loop.time() - began_at))
    return statistics.median(took)


async def test_client_connects_to_proxies_of_srv_records_at_the_addresses_for_its_region(
    tmp_path: Path,
) -> None:
    relay = Relay(None, delay_ms=ONE_WAY_MS)
    link = f"127.0.0.1:{await relay.start()}"
    with (
        ProcessCluster(tmp_path / "cluster", ("east", "west")) as cluster,
        ClusterProxy(
            cluster, "write-proxy", "p-east", "--advertise", f"west={link}", region="east"
        ) as east,
        ClusterProxy(cluster, "write-proxy", "p-west", region="west") as west,
    ):
        host, _, port = east.address.rpartition(":")
        relay.target = (host, int(port))
        async with asyncio.timeout(90), dns_server() as server:
            server.records[SERVICE, "SRV"] = (f"10 1 {west.address.rpartition(':')[2]} p.example.",)
            server.records["p.example", "A"] = ("127.0.0.1",)
            discovery = DiscoveryConfig(dns_server=server.address)
            async with connect_proxies(
                f"grpc+srv://{SERVICE}", discovery=discovery, region="west"
            ) as client:
                near_ms = await append_ms(client, "west")
                assert relay.bytes_to_server == 0
                far_ms = await append_ms(client, "east")
                assert relay.bytes_to_server > 0
                directory = client.channels.directory
                assert directory.connect_address(east.address) == link
                assert {proxy.member.address for proxy in directory.listed} == {
                    east.address,
                    west.address,
                }
    await relay.aclose()
    print(f"append from west: home west {near_ms:.1f} ms, home east {far_ms:.1f} ms, "
          f"round trip {2 * ONE_WAY_MS} ms")  # fmt: skip
    assert far_ms > 2 * ONE_WAY_MS
    assert near_ms < far_ms
