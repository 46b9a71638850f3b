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
from rhumbline.security.settings import SecuritySettings
from rhumbline.security.token_claims import static_token_line
from rhumbline.tests.support.languages import client_builds
from rhumbline.tests.support.processes.process_cluster import ProcessCluster
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy
from rhumbline.tests.support.security.secured_cluster import STREAM, secured
from rhumbline.tests.support.servers.installs import NotInstalledError
from rhumbline.tls.authority import SERVER_NAME

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


class Drive:
    """A run of the program `drive`: `rows` are the (number, position) that it has printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.rows: list[tuple[int, tuple[int, ...]]] = []
        self._process = process
        self._changed = asyncio.Event()
        self.done = asyncio.ensure_future(self._follow())

    @classmethod
    async def start(cls, command: Command, *arguments: str, **environment: str) -> "Drive":
        pipe, env = subprocess.PIPE, {**os.environ, **environment}
        return cls(
            await asyncio.create_subprocess_exec(
                *command, *arguments, stdout=pipe, stderr=pipe, env=env
            )
        )

    async def _follow(self) -> None:
        output, errors = self._process.stdout, self._process.stderr
        assert output is not None and errors is not None
        async for line in output:
            number, at = line.split()
            self.rows.append((int(number), tuple(map(int, at.split(b":")))))
            self._changed.set()
        failure = (await errors.read()).decode()
        assert await self._process.wait() == 0, failure

    async def reach(self, count: int) -> None:
        """Wait until ``count`` rows were printed. Fails if the program ends before."""
        while len(self.rows) < count:
            self._changed.clear()
            waiting = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait([waiting, self.done], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if self.done.done() and len(self.rows) < count:
                await self.done
                raise AssertionError(f"the program ended after {len(self.rows)} records")

    async def aclose(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        self.done.cancel()
        await asyncio.wait([self.done])
        await self._process.wait()


async def owner_of(client: ProxyClient, stream: str) -> str:
    """Return the owner, as soon as there is one: the last takeover may be in progress."""
    request = pb.GetOwnerRequest(namespace="default", stream=stream)
    while True:
        answer = await client.call(methods.GET_OWNER, request, pb.GetOwnerResponse)
        if answer.owner:
            return answer.owner
        await asyncio.sleep(0.05)


async def kill_while(
    cluster: Cluster, client: ProxyClient, stream: str, appending: Drive
) -> list[str]:
    """Kill the owner of the stream again and again, and a read proxy each time."""
    killed = []
    restarts: dict[ClusterProxy, asyncio.Task[None]] = {}
    for number in range(KILLS):
        await appending.reach(RECORDS * (number + 1) // (KILLS + 2))
        address = await owner_of(client, stream)
        for proxy in (cluster.at(address), cluster.reads[number % 2]):
            if proxy in restarts:
                await restarts.pop(proxy)
            proxy.kill()
            restarts[proxy] = asyncio.create_task(asyncio.to_thread(proxy.start))
        assert len(appending.rows) < RECORDS, "every kill is under load"
        killed.append(address)
    await asyncio.gather(*restarts.values())
    return killed


async def append_and_read_under_kills(cluster: Cluster, stream: str, command: Command) -> None:
    seeds = cluster.seeds
    uri = f"grpc://{','.join(proxy.address for proxy in (*cluster.writes, *cluster.reads))}"
    async with asyncio.timeout(200), connect_proxies(uri) as client:
        await client.namespace().create_stream(stream)
        read = ("read", seeds, "default", stream, str(RECORDS))
        reading = await Drive.start(command, *read)
        append = ("append", seeds, "default", stream, str(RECORDS), str(PAUSE_MS))
        appending = await Drive.start(command, *append)
        try:
            killed = await kill_while(cluster, client, stream, appending)
            await appending.done
            await reading.done
        finally:
            for program in (appending, reading):
                await program.aclose()
        stored = []
        async with client.reader(stream) as reader:
            segments = (await client.namespace().describe(stream)).segments
            async for record in reader:
                stored.append((int(record.payload), tuple(record.dlsn)))
                if len(stored) == RECORDS:
                    break
            with pytest.raises(TimeoutError):  # nothing is stored twice, behind the others
                await asyncio.wait_for(anext(reader), 1)
    assert [number for number, _ in stored] == list(range(RECORDS))
    assert reading.rows == stored
    assert appending.rows == stored
    print(f"{stream}: {RECORDS} records once and in order; killed {killed}", len(segments))


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


async def test_clients_identify_themselves_with_a_token_over_tls(
    go_module: Path, typescript_package: Path, tmp_path: Path
) -> None:
    tokens, own = tmp_path / "tokens", tmp_path / "own-token"
    own.write_text("of-the-proxy")
    lines = [static_token_line("proxy", "of-the-proxy", []), static_token_line("app", "s3cret", [])]
    tokens.write_text("\n".join(lines))
    security = SecuritySettings(static_tokens=str(tokens), token_file=str(own))
    go = (str(go_module / "bin" / "drive"),)
    typescript = ("node", str(typescript_package / "dist" / "drive.js"))
    count = 20
    async with secured(tmp_path, security, proxy_client_certificates=False) as made:
        environ = {"CA": str(made.authority.certificate_file), "SERVER_NAME": SERVER_NAME}
        for command in (go, typescript):
            stream = (made.proxy.address, "default", STREAM, str(count))
            for kind in (("append", *stream, "1"), ("read", *stream)):
                drive = await Drive.start(command, *kind, TOKEN="s3cret", **environ)
                await drive.done
                assert [number for number, _ in drive.rows] == list(range(count))
            refused = await Drive.start(command, "read", *stream, TOKEN="wrong", **environ)
            with pytest.raises(AssertionError, match="unauthorized"):
                await refused.done


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
