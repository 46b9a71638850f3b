"""Clients in other languages append and read while owners and read proxies are killed.

The clients are those of `docs/examples`, with stubs made from the .proto file. Every record is
stored and read exactly once and in order.
"""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest

from rhumbline.client.connect import connect_proxies
from rhumbline.proxies.client.proxy_client import ProxyClient
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.tests.support.languages import client_builds
from rhumbline.tests.support.processes.process_cluster import ProcessCluster
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy
from rhumbline.tests.support.servers.installs import NotInstalledError

RECORDS = 1_500
PAUSE_MS = 5
KILLS = 3
PAGE = client_builds.ROOT / "docs" / "reference" / "grpc-api.md"
VECTORS = client_builds.EXAMPLES / "record-sets"

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

Command = tuple[str, ...]
"""How to start the program `drive` of a language."""

Result = TypeVar("Result")


def built(build: Callable[[Path], Result], folder: Path) -> Result:
    """Build a client; in CI a missing toolchain is a failure."""
    try:
        return build(folder)
    except NotInstalledError as error:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


class Cluster:
    """Three bookies, three write proxies and two read proxies."""

    def __init__(self, root: Path) -> None:
        self.bookies = ProcessCluster(root, ("a", "a", "a"))
        self.writes = [ClusterProxy(self.bookies, "write-proxy", f"w{n}") for n in range(3)]
        self.reads = [ClusterProxy(self.bookies, "read-proxy", f"r{n}") for n in range(2)]

    @property
    def seeds(self) -> str:
        """The addresses that a client is started with: one write and one read proxy."""
        return f"{self.writes[0].address},{self.reads[0].address}"

    def at(self, address: str) -> ClusterProxy:
        return next(proxy for proxy in self.writes if proxy.address == address)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ExitStack() as stack:
        cluster = Cluster(tmp_path_factory.mktemp("languages") / "cluster")
        stack.enter_context(cluster.bookies)
        for proxy in (*cluster.writes, *cluster.reads):
            stack.enter_context(proxy)
        yield cluster


async def owner_of(client: ProxyClient, stream: str) -> str:
    request = pb.GetOwnerRequest(namespace="default", stream=stream)
    return (await client.call(methods.GET_OWNER, request, pb.GetOwnerResponse)).owner


async def kill_while(cluster: Cluster, client: ProxyClient, stream: str) -> list[str]:
    """Kill the owner of the stream again and again, and a read proxy each time."""
    killed = []
    for number in range(KILLS):
        await asyncio.sleep(1.5)
        address = await owner_of(client, stream)
        assert address, "a proxy owns the stream while records are appended"
        owner, reader = cluster.at(address), cluster.reads[number % 2]
        owner.kill()
        reader.kill()
        killed.append(address)
        for proxy in (owner, reader):
            await asyncio.to_thread(proxy.start)
    return killed


def lines(output: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """Return (number, position) of each line that a client printed."""
    rows = [line.split() for line in output.decode().splitlines()]
    return [(int(number), tuple(map(int, at.split(":")))) for number, at in rows]


async def drive(command: Command, *arguments: str) -> list[tuple[int, tuple[int, ...]]]:
    process = await asyncio.create_subprocess_exec(
        *command, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), 120)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    return lines(output)


async def append_and_read_under_kills(cluster: Cluster, stream: str, command: Command) -> None:
    seeds = cluster.seeds
    uri = f"grpc://{','.join(proxy.address for proxy in (*cluster.writes, *cluster.reads))}"
    async with asyncio.timeout(200), connect_proxies(uri) as client:
        await client.namespace().create_stream(stream)
        read = drive(command, "read", seeds, "default", stream, str(RECORDS))
        reading = asyncio.ensure_future(read)
        append = drive(command, "append", seeds, "default", stream, str(RECORDS), str(PAUSE_MS))
        appending = asyncio.ensure_future(append)
        try:
            killed = await kill_while(cluster, client, stream)
            acknowledged, received = await appending, await reading
        finally:
            for task in (appending, reading):
                task.cancel()
            await asyncio.wait([appending, reading])
        stored = []
        async with client.reader(stream) as reader:
            end = (await client.namespace().describe(stream)).segments
            async for record in reader:
                stored.append((int(record.payload), tuple(record.dlsn)))
                if len(stored) == RECORDS:
                    break
            with pytest.raises(TimeoutError):  # nothing is stored twice, behind the others
                await asyncio.wait_for(anext(reader), 1)
    assert [number for number, _ in stored] == list(range(RECORDS))
    assert received == stored
    assert acknowledged == stored
    print(f"{stream}: {RECORDS} records once and in order; killed {killed}; {len(end)} segments")


@pytest.fixture(scope="module")
def go_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(client_builds.go_client, tmp_path_factory.mktemp("go"))


@pytest.fixture(scope="module")
def typescript_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(client_builds.typescript_client, tmp_path_factory.mktemp("typescript"))


async def test_go_client_survives_kills(cluster: Cluster, go_module: Path) -> None:
    command = (str(go_module / "bin" / "drive"),)
    await append_and_read_under_kills(cluster, "go", command)


async def test_typescript_client_survives_kills(cluster: Cluster, typescript_package: Path) -> None:
    command = ("node", str(typescript_package / "dist" / "drive.js"))
    await append_and_read_under_kills(cluster, "typescript", command)


def test_java_stubs_append_and_read(cluster: Cluster, tmp_path: Path) -> None:
    command = built(client_builds.java_client, tmp_path)
    # A read proxy would redirect appends, which the smoke client does not follow.
    with ClusterProxy(cluster.bookies, "write-proxy", "both", "--with-read", region="b") as both:
        done = subprocess.run(
            [*command, both.address, "java"], capture_output=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().split() == ["appended", "2", "one", "two"]


def test_go_client_passes_its_unit_tests(go_module: Path) -> None:
    found = {"GRPC_PAGE": str(PAGE), "VECTORS": str(VECTORS)}
    client_builds.run(go_module, "go", "test", "./...", **found)


def test_typescript_client_passes_its_unit_tests(typescript_package: Path) -> None:
    client_builds.run(typescript_package, "node", "--test", "dist/", GRPC_PAGE=str(PAGE))
