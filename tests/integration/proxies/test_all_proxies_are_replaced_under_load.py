"""All proxies are replaced, one after the other, under load; no record is lost or doubled.

The client knows one proxy when it begins. Each new proxy has a new address, and each old one is
stopped for good, so in the end none of those that the client began with is left. The longest gap in
the acknowledgements is printed.
"""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from rhumbline.client.connect import connect_proxies
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.proxies.client.discovery.config import DiscoveryConfig
from rhumbline.proxies.client.proxy_client import ProxyClient
from rhumbline.tests.support.processes.process_cluster import ProcessCluster
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy

PROXIES = 3
STREAMS = ("s0", "s1", "s2", "s3")
PRODUCERS = 5
"""Producers of each stream."""
PAUSE_S = 0.02
POLICY = StreamPolicy(quorum=Quorum(2, 2, 2))

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]


class Load:
    """Producers that await each record, and a reader of each stream, in one client."""

    def __init__(self, client: ProxyClient) -> None:
        self.client = client
        self.acked: dict[str, dict[Dlsn, bytes]] = {stream: {} for stream in STREAMS}
        self.sent: dict[str, set[bytes]] = {stream: set() for stream in STREAMS}
        self.found: dict[str, list[tuple[Dlsn, bytes]]] = {stream: [] for stream in STREAMS}
        self.has_found = asyncio.Event()
        self.gap_s = 0.0
        self.is_over = False

    async def produce(self, stream: str, number: int) -> None:
        loop = asyncio.get_running_loop()
        count = 0
        async with self.client.writer(stream) as writer:
            while not self.is_over:
                payload = b"%d-%d" % (number, count)
                count += 1
                self.sent[stream].add(payload)
                began_at = loop.time()
                result = await writer.append(payload)
                self.gap_s = max(self.gap_s, loop.time() - began_at)
                self.acked[stream][result.dlsn] = payload
                await asyncio.sleep(PAUSE_S)

    async def tail(self, stream: str) -> None:
        async with self.client.reader(stream) as reader:
            async for record in reader:
                self.found[stream].append((record.dlsn, record.payload))
                self.has_found.set()

    def check(self) -> None:
        for stream, found in self.found.items():
            assert dict(found) == self.acked[stream], "each acknowledged record at its position"
            counts = Counter(payload for _, payload in found)
            assert max(counts.values()) == 1, f"doubled in {stream}"
            assert set(counts) == self.sent[stream], "nothing is lost"


async def replace_all(cluster: ProcessCluster, initial: list[ClusterProxy]) -> Load:
    first = initial[0].address
    started: list[ClusterProxy] = []
    running = list(initial)
    try:
        # With the default interval of refreshes: redirects and failures are what reveals the new.
        async with connect_proxies(f"grpc://{first}", discovery=DiscoveryConfig()) as client:
            for stream in STREAMS:
                await client.namespace().create_stream(stream, POLICY)
            load = Load(client)
            tails = Tasks()
            for stream in STREAMS:
                tails.spawn(load.tail(stream), f"tail of {stream}")
            work = [
                asyncio.create_task(load.produce(stream, number))
                for stream in STREAMS
                for number in range(PRODUCERS)
            ]
            await asyncio.sleep(1)
            for number, old in enumerate(initial):
                new = ClusterProxy(cluster, "write-proxy", f"new{number}", "--with-read")
                started.append(new)
                await asyncio.to_thread(new.start)
                assert await asyncio.to_thread(old.stop, number=signal.SIGTERM) == 0
                running.remove(old)
                running.append(new)
                await asyncio.sleep(0.5)
            assert client.statistics()["discovery"]["proxies"] >= PROXIES
            assert not {proxy.address for proxy in initial} & {p.address for p in running}
            before = sum(map(len, load.acked.values()))
            await asyncio.sleep(1)
            assert sum(map(len, load.acked.values())) > before + 100, "the load continues"
            load.is_over = True
            await asyncio.gather(*work)
            while any(len(load.found[s]) < len(load.acked[s]) for s in STREAMS):
                await load.has_found.wait()
                load.has_found.clear()
            await tails.aclose()
            listed = {proxy.member.address for proxy in client.channels.directory.listed}
            unknown = {proxy.address for proxy in running} - listed
            # Nothing reveals the newest one if the last to stop sent its clients to others.
            assert unknown <= {started[-1].address}
        return load
    finally:
        for proxy in started:
            proxy.kill()


def test_client_survives_the_replacement_of_every_proxy(tmp_path: Path) -> None:
    """A client whose initial proxies were all replaced could not continue."""
    with ProcessCluster(tmp_path / "cluster", ["here"] * 2) as cluster:
        initial = [
            ClusterProxy(cluster, "write-proxy", f"old{number}", "--with-read")
            for number in range(PROXIES)
        ]
        try:
            for proxy in initial:
                proxy.launch()
            for proxy in initial:
                proxy.wait_ready()
            load = asyncio.run(asyncio.wait_for(replace_all(cluster, initial), 90))
        finally:
            for proxy in initial:
                proxy.kill()
    load.check()
    count = sum(map(len, load.acked.values()))
    print(f"{PROXIES} proxies replaced: {count} records, 0 lost, 0 doubled, "
          f"longest append {load.gap_s * 1000:.0f} ms")  # fmt: skip
