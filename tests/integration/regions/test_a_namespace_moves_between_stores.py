"""A namespace moves from a region's store to the global one and back, while it is used.

Everything is a real process: bookies that collect garbage all the time, a proxy, the command.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from rhumbline import connect
from rhumbline.chaos.server_processes import BookieProcess, ProxyProcess
from rhumbline.client.connect import Client
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.processes.process_cluster import rhumbline
from rhumbline.tests.support.servers.store_locations import ETCD, ZOOKEEPER, store_location_of

EAST, WEST, NAME = "east", "west", "moving"
POLICY = StreamPolicy(quorum=Quorum(2, 2, 2, 1), roll_bytes=20_000, regions=(EAST,))


@dataclass
class Cluster:
    """Two bookies and a proxy in east, a bookie in west, and the stores of both kinds."""

    uri: str
    regional: str
    proxy: str
    environ: dict[str, str]

    def client(self) -> Client:
        client = connect(
            self.uri, namespace=NAME, region=EAST, regional_metadata={EAST: self.regional}
        )
        assert isinstance(client, Client)
        return client


@contextmanager
def running(kinds: tuple[str, str], root: Path) -> Iterator[Cluster]:
    with ExitStack() as closing:
        uris = []
        for kind, name in zip(kinds, ("global", "regional"), strict=True):
            (root / name).mkdir()
            uris.append(closing.enter_context(store_location_of(kind, root / name)).uri)
        environ = {
            "RHUMBLINE_CLUSTER__METADATA": uris[0],
            "RHUMBLINE_CLUSTER__REGIONAL_METADATA__EAST": uris[1],
            "RHUMBLINE_BOOKIE__COLLECT_MS": "1s",
            "RHUMBLINE_BOOKIE__MAINTENANCE_MS": "300ms",
        }

        def run(*arguments: str) -> None:
            done = rhumbline(*arguments, environ=environ)
            assert done.returncode == 0, done.stderr.decode()

        run("cluster", "init")
        run("cluster", "join-store", EAST)
        for number, region in enumerate((EAST, EAST, WEST)):
            directory = root / f"b{number}"
            run("bookie", "format", str(directory), "--name", f"b{number}", "--region", region)
            closing.enter_context(BookieProcess(directory, uris[0], environ=environ))
        proxy = ProxyProcess(
            root, uris[0], "write-proxy", "proxy", "--with-read", region=EAST, environ=environ
        )
        closing.enter_context(proxy)
        yield Cluster(uris[0], uris[1], proxy.address, environ)


@dataclass
class Load:
    """Numbered records, appended through the client and through the proxy."""

    acknowledged: list[bytes]
    is_stopping: bool = False

    async def write(self, client: Client) -> None:
        """Append to the stream ``direct``, which is opened again when it is lost."""
        number = 0
        while not self.is_stopping:
            with suppress(RhumblineError):
                async with await client.namespace().open_writer("direct") as writer:
                    while not self.is_stopping:
                        number += 1
                        payload = b"%06d" % number
                        await writer.append(payload + bytes(500))
                        self.acknowledged.append(payload)
            await asyncio.sleep(0.05)

    async def write_by_proxy(self, proxy: str, done: list[int]) -> None:
        """Append to the stream ``proxied``; the client of proxies sends again by itself."""
        uri = f"grpc://{proxy}"
        async with connect(uri, namespace=NAME) as thin, thin.writer("proxied") as writer:
            while not self.is_stopping:
                await writer.append(b"%d" % len(done))
                done.append(len(done))
                await asyncio.sleep(0.01)

    async def advance(self, sent: list[int], tasks: list[asyncio.Task[None]]) -> None:
        """Wait until both writers have appended more records."""
        records, sets = len(self.acknowledged) + 100, len(sent) + 20
        await until(lambda: len(self.acknowledged) > records and len(sent) > sets, tasks)


async def tail(client: Client, stream: str, found: list[bytes]) -> None:
    async with await client.namespace().open_reader(stream, EARLIEST) as reader:
        async for record in reader:
            found.append(bytes(record.payload))


@pytest.mark.parametrize(
    "kinds",
    [
        ("sqlite", "sqlite"),
        pytest.param(
            ("zookeeper frozen", "etcd frozen"), marks=[ZOOKEEPER, ETCD, pytest.mark.long]
        ),
    ],
    ids=["sqlite", "zookeeper-and-etcd"],
)
async def test_a_namespace_moves_while_it_is_used(kinds: tuple[str, str], tmp_path: Path) -> None:
    with running(kinds, tmp_path) as cluster:
        async with cluster.client() as client:
            await client.namespaces.create(NAME, POLICY, client.region)
            for stream in ("direct", "proxied"):
                await client.namespace().create_stream(stream)
            load, sent = Load([]), list[int]()
            direct, proxied = list[bytes](), list[bytes]()
            tails = [
                asyncio.create_task(tail(client, "direct", direct)),
                asyncio.create_task(tail(client, "proxied", proxied)),
            ]
            writers = [
                asyncio.create_task(load.write(client)),
                asyncio.create_task(load.write_by_proxy(cluster.proxy, sent)),
            ]
            for target in ("global", EAST):
                await load.advance(sent, [*writers, *tails])
                print(await asyncio.to_thread(move, cluster, target))
                await load.advance(sent, [*writers, *tails])
                found = await client.namespaces.find(NAME)
                assert found.store_region == (None if target == "global" else EAST)
            load.is_stopping = True
            await asyncio.gather(*writers)
            await until(lambda: bool(direct) and direct[-1][:6] >= load.acknowledged[-1], tails)
            await until(lambda: len(proxied) >= len(sent), tails)
            for task in tails:
                task.cancel()
            await asyncio.gather(*tails, return_exceptions=True)
            numbers = [payload[:6] for payload in direct]
            assert numbers == sorted(set(numbers)), "doubled or reordered"
            assert not {*load.acknowledged} - {*numbers}, "lost"
            assert proxied == [b"%d" % number for number in sent]


async def until(condition: "object", tasks: list[asyncio.Task[None]]) -> None:
    """Wait until ``condition`` holds; a task that fails meanwhile fails the test."""
    assert callable(condition)
    async with asyncio.timeout(60):
        while not condition():
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)


def move(cluster: Cluster, target: str) -> str:
    done = rhumbline("namespace", "move", NAME, "--to", target, environ=cluster.environ)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode() + done.stderr.decode()
