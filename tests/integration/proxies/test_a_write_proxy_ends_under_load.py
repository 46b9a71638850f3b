"""Real processes: bookies, two write proxies, a read proxy, many producers; the owner is killed,
stopped in an orderly way, or stopped and woken up. Nothing is lost or doubled; the gap is printed.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rhumbline.client.connect import connect_proxies
from rhumbline.core.log.positioning import EARLIEST
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.proxies import methods
from rhumbline.proxies import rhumbline_pb2 as pb
from rhumbline.proxies.client import ProxyClient
from rhumbline.tests.support.processes import ProcessCluster
from rhumbline.tests.support.proxy_processes import ProxyProcess

PRODUCERS = 40
SECONDS = 4.0
END_AFTER_S = 1.0


class Cluster:
    """The processes of a test."""

    def __init__(
        self, bookies: ProcessCluster, writes: list[ProxyProcess], read: ProxyProcess
    ) -> None:
        self.bookies = bookies
        self.writes = writes
        self.read = read

    @property
    def write_uri(self) -> str:
        return "grpc://" + ",".join(one.address for one in self.writes)

    @property
    def read_uri(self) -> str:
        return f"grpc://{self.read.address}"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        bookies = stack.enter_context(ProcessCluster(tmp_path / "cluster", ("a", "b", "c")))
        writes = [
            stack.enter_context(ProxyProcess(bookies, "write-proxy", f"w{n}")) for n in range(2)
        ]
        read = stack.enter_context(ProxyProcess(bookies, "read-proxy", "r0"))
        yield Cluster(bookies, writes, read)


class Load:
    """Producers that await each record, and what became of it."""

    def __init__(self) -> None:
        self.acked: dict[Dlsn, bytes] = {}
        self.sent: set[bytes] = set()
        self.last_ack_at = 0.0
        self.gap_s = 0.0

    async def produce(self, client: ProxyClient, number: int, until: float) -> None:
        loop = asyncio.get_running_loop()
        async with client.writer("s") as writer:
            count = 0
            while loop.time() < until:
                payload = b"%d-%d" % (number, count)
                self.sent.add(payload)
                result = await writer.append(payload)
                assert result.dlsn not in self.acked
                self.acked[result.dlsn] = payload
                now = loop.time()
                self.gap_s = max(self.gap_s, now - self.last_ack_at)
                self.last_ack_at = now
                count += 1

    async def run(self, client: ProxyClient, trouble: Callable[[ProxyProcess], None],
                  cluster: Cluster) -> None:  # fmt: skip
        loop = asyncio.get_running_loop()
        async with client.writer("s") as writer:
            await writer.append(b"first")  # somebody owns the stream from now on
        request = pb.GetOwnerRequest(namespace="default", stream="s")
        answer = await client.call(methods.GET_OWNER, request, pb.GetOwnerResponse)
        owner = next(one for one in cluster.writes if one.address == answer.owner)
        self.last_ack_at = loop.time()
        until = loop.time() + SECONDS
        work = [loop.create_task(self.produce(client, n, until)) for n in range(PRODUCERS)]
        loop.call_later(END_AFTER_S, loop.run_in_executor, None, trouble, owner)
        await asyncio.gather(*work)


async def tail(cluster: Cluster, found: list[tuple[Dlsn, bytes]]) -> None:
    """Another client, which follows while it happens."""
    async with (
        connect_proxies(cluster.read_uri) as client,
        client.reader("s", EARLIEST) as reader,
    ):
        async for record in reader:
            found.append((record.dlsn, record.payload))


async def through(
    cluster: Cluster, trouble: Callable[[ProxyProcess], None]
) -> tuple[Load, list[tuple[Dlsn, bytes]]]:
    load = Load()
    found: list[tuple[Dlsn, bytes]] = []
    async with asyncio.timeout(90), connect_proxies(cluster.write_uri) as client:
        await client.namespace().create_stream("s")
        tailing = asyncio.create_task(tail(cluster, found))
        await load.run(client, trouble, cluster)
        newest = max(load.acked)
        while not found or found[-1][0] < newest:
            assert not tailing.done(), tailing.exception()
            await asyncio.sleep(0.05)
        tailing.cancel()
        await asyncio.gather(tailing, return_exceptions=True)
    return load, found


def check(load: Load, found: list[tuple[Dlsn, bytes]]) -> None:
    where = dict(found)
    assert len(where) == len(found) and [one for one, _ in found] == sorted(where)
    counts = Counter(payload for _, payload in found)
    assert {place: where.get(place) for place in load.acked} == load.acked, "lost or moved"
    assert max(counts.values()) == 1, "doubled"
    assert set(counts) - {b"first"} == load.sent, "every record was acknowledged in the end"
    for number in range(PRODUCERS):
        mine = [p for _, p in found if p.startswith(b"%d-" % number)]
        assert mine == [b"%d-%d" % (number, n) for n in range(len(mine))]


@pytest.mark.timeout(180)
def test_the_owner_is_killed(cluster: Cluster) -> None:
    load, found = asyncio.run(through(cluster, lambda owner: owner.send(signal.SIGKILL)))
    check(load, found)
    print(f"kill -9: {len(load.acked)} records, longest gap {load.gap_s * 1000:.0f} ms")


@pytest.mark.timeout(180)
def test_the_owner_is_stopped_in_an_orderly_way(cluster: Cluster) -> None:
    codes: list[int] = []
    load, found = asyncio.run(
        through(cluster, lambda owner: codes.append(owner.end(signal.SIGTERM)))
    )
    check(load, found)
    assert codes == [0]
    print(f"SIGTERM: {len(load.acked)} records, longest gap {load.gap_s * 1000:.0f} ms")


@pytest.mark.timeout(180)
def test_the_owner_sleeps_and_wakes_up_as_a_second_owner(cluster: Cluster) -> None:
    def trouble(owner: ProxyProcess) -> None:
        owner.send(signal.SIGSTOP)
        asyncio.run(asyncio.sleep(SECONDS + 4))
        owner.send(signal.SIGCONT)

    load, found = asyncio.run(through(cluster, trouble))
    check(load, found)
    print(f"SIGSTOP: {len(load.acked)} records, longest gap {load.gap_s * 1000:.0f} ms")
    assert all(one.process is None or one.process.poll() is None for one in cluster.writes)
