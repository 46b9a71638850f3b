"""Owners and the home region are lost under load; no record is lost or doubled.

Three regions of real processes have two bookies, two write proxies and a read proxy each. A hundred
producers write to one stream while its owner is killed, stopped gracefully, suspended and resumed,
and while its home region is lost. The gaps in acknowledgements are printed.

``--seeds`` sets how often an owner ends in one test (default 5).
"""

import asyncio
import signal
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rhumbline.client.connect import connect_proxies
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.proxies.client.proxy_client import ProxyClient
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy, ProxyRegions

REGIONS = ("east", "north", "west")
HOME = "east"
PRODUCERS = 100
PAUSE_S = 0.02
POLICY = StreamPolicy(quorum=Quorum(3, 3, 2, 2))

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def proxies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyRegions]:
    with ProxyRegions(Path(tmp_path_factory.mktemp("regions")) / "cluster", REGIONS) as started:
        yield started


@pytest.fixture(scope="module")
def rounds(request: pytest.FixtureRequest) -> int:
    return request.config.option.seeds or 5


class Load:
    """A hundred producers that await each record, their results, and readers of the stream."""

    def __init__(self, proxies: ProxyRegions, stream: str) -> None:
        self.proxies = proxies
        self.stream = stream
        self.acked: dict[Dlsn, bytes] = {}
        self.sent: set[bytes] = set()
        self.found: dict[str, list[tuple[Dlsn, bytes]]] = {region: [] for region in REGIONS}
        self.gap_s = 0.0
        self.client: ProxyClient
        self._last_ack_at = 0.0
        self._is_over = False
        self._failures: list[BaseException] = []

    @asynccontextmanager
    async def running(self, *readers: str) -> AsyncIterator["Load"]:
        """Write records while the block runs, and read them in the regions of ``readers``."""
        tails = Tasks(on_failure=self._failures.append)
        async with (
            asyncio.timeout(300),
            connect_proxies(self.proxies.near(HOME)) as self.client,
        ):
            await self.client.namespace().create_stream(self.stream, POLICY, home_region=HOME)
            for region in readers:
                tails.spawn(self._tail(region), f"tail in {region}")
            work = [asyncio.create_task(self._produce(self.client, n)) for n in range(PRODUCERS)]
            await self.acks(5 * PRODUCERS)
            yield self
            self._is_over = True
            await asyncio.gather(*work)
            newest = max(self.acked)
            while any(not f or f[-1][0] < newest for f in map(self.found.get, readers)):
                assert not self._failures, self._failures
                await asyncio.sleep(0.02)
            await tails.aclose()

    async def _produce(self, client: ProxyClient, number: int) -> None:
        loop = asyncio.get_running_loop()
        count = 0
        async with client.writer(self.stream) as writer:
            while not self._is_over:
                payload = b"%d-%d" % (number, count)
                count += 1
                self.sent.add(payload)
                result = await writer.append(payload)
                now = loop.time()
                assert result.dlsn not in self.acked
                self.acked[result.dlsn] = payload
                self.gap_s = max(self.gap_s, now - self._last_ack_at)
                self._last_ack_at = now
                await asyncio.sleep(PAUSE_S)

    async def _tail(self, region: str) -> None:
        async with (
            connect_proxies(self.proxies.reads_of(region)) as client,
            client.reader(self.stream, EARLIEST) as reader,
        ):
            async for record in reader:
                self.found[region].append((record.dlsn, record.payload))

    async def acks(self, count: int) -> None:
        """Wait for ``count`` more acknowledgements."""
        wanted = len(self.acked) + count
        while len(self.acked) < wanted:
            assert not self._failures, self._failures
            await asyncio.sleep(0.02)

    async def owner(self) -> ClusterProxy:
        """Return the owner of the stream."""
        request = pb.GetOwnerRequest(namespace="default", stream=self.stream)
        while True:
            answer = await self.client.call(methods.GET_OWNER, request, pb.GetOwnerResponse)
            if answer.owner:
                return self.proxies.at(answer.owner)
            await asyncio.sleep(0.02)

    async def gap_of(self, disturb: Callable[[], Awaitable[object]], after: int) -> float:
        """Return the longest gap in acknowledgements during ``disturb`` and ``after`` more acks."""
        self._last_ack_at = asyncio.get_running_loop().time()
        self.gap_s = 0.0
        await disturb()
        await self.acks(after)
        return self.gap_s

    def check(self) -> None:
        """Check that each acknowledged record is stored once, at its position and in order."""
        for region, found in self.found.items():
            if not found:
                continue
            payload_at = dict(found)
            assert len(payload_at) == len(found), region
            assert [position for position, _ in found] == sorted(payload_at), region
            assert {position: payload_at.get(position) for position in self.acked} == self.acked, (
                region
            )
            counts = Counter(payload for _, payload in found)
            assert max(counts.values()) == 1, f"doubled in {region}"
            assert set(counts) == self.sent, "every record was acknowledged in the end"
            seen = [0] * PRODUCERS
            for _, payload in found:
                number, count = map(int, payload.split(b"-"))
                assert count == seen[number], f"producer {number} out of order in {region}"
                seen[number] += 1


def report(what: str, gaps_s: list[float], load: Load) -> None:
    times = ", ".join(f"{gap * 1000:.0f}" for gap in sorted(gaps_s))
    median = statistics.median(gaps_s) * 1000
    print(f"{what}: {len(load.acked)} records, gaps {times} ms, median {median:.0f} ms")


async def end_owners(
    proxies: ProxyRegions, stream: str, rounds: int, number: signal.Signals
) -> tuple[Load, list[float], list[int | None]]:
    """End the owner ``rounds`` times; each is restarted before the next one ends."""
    gaps, codes = [], []
    async with Load(proxies, stream).running("north") as load:
        for _ in range(rounds):
            owner = await load.owner()

            async def end(owner: ClusterProxy = owner) -> None:
                codes.append(await asyncio.to_thread(owner.stop, number=number))

            gaps.append(await load.gap_of(end, 10 * PRODUCERS))
            await asyncio.to_thread(owner.start)
    return load, gaps, codes


def test_owners_are_killed(proxies: ProxyRegions, rounds: int) -> None:
    load, gaps, _ = asyncio.run(end_owners(proxies, "killed", rounds, signal.SIGKILL))
    load.check()
    report("kill -9", gaps, load)


@pytest.mark.long
def test_owners_are_stopped_gracefully(proxies: ProxyRegions, rounds: int) -> None:
    load, gaps, codes = asyncio.run(end_owners(proxies, "stopped", rounds, signal.SIGTERM))
    load.check()
    assert codes == [0] * rounds
    report("SIGTERM", gaps, load)


@pytest.mark.long
async def test_owner_is_suspended_and_resumes_as_a_second_owner(proxies: ProxyRegions) -> None:
    async with Load(proxies, "sleeping").running("north") as load:
        owner = await load.owner()

        async def stop() -> None:
            owner.pause()

        gap = await load.gap_of(stop, 10 * PRODUCERS)
        assert (await load.owner()) is not owner
        owner.resume()
        await load.acks(10 * PRODUCERS)
        assert owner.is_running
    load.check()
    report("SIGSTOP", [gap], load)


async def test_reader_of_an_idle_stream_detects_that_its_proxy_was_suspended(
    proxies: ProxyRegions,
) -> None:
    near, *others = sorted(proxies.reads, key=lambda proxy: proxy.region != "west")
    async with (
        asyncio.timeout(120),
        connect_proxies(proxies.near(HOME)) as producer,
        connect_proxies(proxies.uri([near, *others])) as client,
    ):
        await producer.namespace().create_stream("quiet", POLICY, home_region=HOME)
        async with producer.writer("quiet") as writer, client.reader("quiet") as reader:
            await writer.append(b"before")
            assert (await anext(reader)).payload == b"before"
            next_record = asyncio.ensure_future(anext(reader))
            await asyncio.sleep(0.5)
            near.pause()
            try:
                started = asyncio.get_running_loop().time()
                await asyncio.sleep(1)
                await writer.append(b"behind")
                assert (await next_record).payload == b"behind"
                took_s = asyncio.get_running_loop().time() - started
            finally:
                near.resume()
    print(f"SIGSTOP of a read proxy: delivered {took_s * 1000:.0f} ms later")


async def test_home_region_is_lost(proxies: ProxyRegions) -> None:
    """Must be the last test of the module: the killed processes stay dead."""
    async with Load(proxies, "homeless").running("north", "west") as load:
        assert (await load.owner()).region == HOME
        gap = await load.gap_of(
            lambda: asyncio.to_thread(proxies.kill_region, HOME), 10 * PRODUCERS
        )
        assert (await load.owner()).region != HOME
    load.check()
    report("home region lost", [gap], load)
