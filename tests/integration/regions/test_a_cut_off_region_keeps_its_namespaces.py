"""A region whose global metadata store is away opens, rolls and truncates its own streams.

Everything is a real process: bookies, a proxy, a repairer, and for the server kinds two stores. The
global store is unavailable for RHUMBLINE_AWAY_S seconds (default: 3).
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rhumbline import connect
from rhumbline.chaos.managed_process import ManagedProcess, rhumbline_command
from rhumbline.chaos.server_processes import BookieProcess, ProxyProcess
from rhumbline.client.connect import Client
from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.read.stream_reader import StreamReader
from rhumbline.core.protocol.dlsn import FIRST_DLSN, Dlsn
from rhumbline.core.protocol.errors import RhumblineError, StreamExistsError, TruncatedError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.processes.process_cluster import rhumbline
from rhumbline.tests.support.servers.store_locations import (
    ETCD,
    ZOOKEEPER,
    StoreLocation,
    store_location_of,
)

AWAY_S = float(os.environ.get("RHUMBLINE_AWAY_S", "3"))
EAST, WEST = "east", "west"
LOCAL, EVERYWHERE = "local", "everywhere"
ROLLING = StreamPolicy(quorum=Quorum(3, 3, 2, 1), roll_bytes=10_000)


@dataclass
class Regions:
    """Three bookies, a proxy and a repairer in east, whose store is ``regional``; one in west."""

    location: StoreLocation
    regional: str
    proxy: ProxyProcess
    environ: dict[str, str]

    def client(self) -> Client:
        client = connect(
            self.location.uri,
            namespace=LOCAL,
            region=EAST,
            regional_metadata={EAST: self.regional},
        )
        assert isinstance(client, Client)
        return client

    def run(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run a command in east; it must succeed."""
        done = rhumbline(*arguments, "--region", EAST, stdin=stdin, environ=self.environ)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()


@contextmanager
def running(kind: str, root: Path) -> Iterator[Regions]:
    with ExitStack() as closing:
        for name in ("global", "regional"):
            (root / name).mkdir()
        location = closing.enter_context(store_location_of(kind, root / "global"))
        regional = closing.enter_context(store_location_of(kind, root / "regional")).uri
        environ = {
            "RHUMBLINE_CLUSTER__METADATA": location.uri,
            "RHUMBLINE_CLUSTER__REGIONAL_METADATA__EAST": regional,
            "RHUMBLINE_BOOKIE__SESSION_TTL_MS": "1s",
            "RHUMBLINE_CLUSTER__METADATA_TIMEOUT_MS": "2s",
        }

        def run(*arguments: str) -> None:
            done = rhumbline(*arguments, environ=environ)
            assert done.returncode == 0, done.stderr.decode()

        run("cluster", "init")
        run("cluster", "join-store", EAST)
        for number, region in enumerate((EAST, EAST, EAST, WEST)):
            directory = root / f"b{number}"
            run("bookie", "format", str(directory), "--name", f"b{number}", "--region", region)
            bookie = BookieProcess(directory, location.uri, environ=environ)
            closing.enter_context(bookie)
        proxy = ProxyProcess(
            root, location.uri, "write-proxy", "proxy", "--with-read", region=EAST, environ=environ
        )
        closing.enter_context(proxy)
        repairer = ManagedProcess(
            "repair",
            rhumbline_command("repair", "run", "--region", EAST),
            root / "repair.log",
            ready="^repairing the cluster",
            ready_s_max=60,
            environ=environ,
        )
        closing.enter_context(repairer)
        yield Regions(location, regional, proxy, environ)


async def read_until(reader: StreamReader, end: Dlsn) -> list[bytes]:
    """Return the records up to ``end``."""
    found = []
    async with asyncio.timeout(60), reader:
        async for record in reader:
            found.append(bytes(record.payload))
            if record.dlsn >= end:
                break
    return found


async def eventually(work: Callable[[], Awaitable[object]]) -> None:
    """Repeat ``work`` until the global store and the registrations in it are back."""
    async with asyncio.timeout(60):
        while True:
            try:
                await work()
                return
            except StreamExistsError:
                return  # by the attempt before
            except RhumblineError as error:
                if not error.retryable:
                    raise
            await asyncio.sleep(0.1)


async def append(namespace: Namespace, stream: str, first: int, count: int) -> Dlsn:
    """Open a writer, append numbered records of a kilobyte, close it; return the last position."""
    async with await namespace.open_writer(stream) as writer:
        for number in range(first, first + count):
            at = await writer.append(b"%06d" % number + bytes(1_000))
    return at.dlsn


@pytest.mark.timeout(AWAY_S + 300)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("sqlite", marks=pytest.mark.long),
        pytest.param("etcd frozen", marks=ETCD),
        pytest.param("zookeeper frozen", marks=[ZOOKEEPER, pytest.mark.long]),
    ],
)
async def test_streams_of_the_region_are_used_as_if_nothing_happened(
    kind: str, tmp_path: Path
) -> None:
    with running(kind, tmp_path) as regions:
        async with regions.client() as client:
            await client.namespaces.create(LOCAL, ROLLING, client.region)
            await client.namespaces.create(EVERYWHERE, ROLLING)
            local = client.namespace(LOCAL)
            for stream in ("rolled", "proxied"):
                await local.create_stream(stream)
            open_writer = await local.open_writer("rolled")
            await open_writer.append(b"before the cut")
            regions.location.make_unavailable()
            began = time.monotonic()
            try:
                await use_during_the_cut(regions, client, open_writer.append)
                await asyncio.sleep(max(0.0, AWAY_S - (time.monotonic() - began)))
            finally:
                regions.location.make_available()
            everywhere = client.namespace(EVERYWHERE)
            await eventually(lambda: everywhere.create_stream("after"))
            await eventually(lambda: append(everywhere, "after", 0, 3))
            end = await append(local, "rolled", 1_000, 1)
            records = await read_until(await local.open_reader("rolled", EARLIEST), end)
            numbers = [int(record[:6]) for record in records]
            assert numbers == [*range(60, 120), 1_000], "nothing was lost over the cut"
            assert "east" in regions.run("namespace", "ls")


async def use_during_the_cut(regions: Regions, client: Client, append_open: object) -> None:
    """Use the streams of the region in every way; nothing may wait for the global store."""
    local = client.namespace(LOCAL)
    assert callable(append_open)
    began = time.monotonic()
    await append_open(b"in the cut")  # the writer that was open
    first = await append(local, "rolled", 0, 60)  # takes over, and rolls after ten records or so
    last = await append(local, "rolled", 60, 60)
    assert last.lssn > first.lssn > 2, "segments were rolled"
    segments = (await local.describe("rolled")).segments
    start = next(segment for segment in segments if segment.lssn > first.lssn)
    assert await local.truncate("rolled", Dlsn(start.lssn, 0, 0)) > FIRST_DLSN
    with pytest.raises(TruncatedError):
        await local.open_reader("rolled", FIRST_DLSN)
    records = await read_until(await local.open_reader("rolled", EARLIEST), last)
    assert [int(record[:6]) for record in records] == list(range(60, 120))
    await local.create_stream("new")
    await append(local, "new", 0, 3)
    await local.delete_stream("new")
    took_s = time.monotonic() - began
    print(f"{regions.location.name}: all of it in {took_s:.1f} s of the cut")
    assert (await client.own_regional_store()) is not None

    uri = f"grpc://{regions.proxy.address}"
    async with connect(uri, namespace=LOCAL) as thin:
        async with thin.writer("proxied") as writer:
            for number in range(20):
                at = await writer.append(b"%d" % number)
        records = await read_until(await thin.namespace().open_reader("proxied", EARLIEST), at.dlsn)
    assert records == [b"%d" % number for number in range(20)]

    text = regions.run("namespace", "ls")  # a new process
    assert LOCAL in text and EVERYWHERE not in text
    regions.run("stream", "append", "-n", LOCAL, "proxied", stdin=b"from a new process\n")
