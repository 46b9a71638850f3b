"""Three regions, a writer, a tail; the owner dies, a region is cut off, the metadata is away.

The same story on every metadata store, with real sockets, files and servers. RHUMBLINE_AWAY_S says
how long the metadata store is away (default: some seconds).
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Protocol
from uuid import uuid4

import pytest

from rhumbline.backends.migration import End, Migration
from rhumbline.backends.open import open_as_it_is
from rhumbline.cli.local_cluster import LocalCluster
from rhumbline.core.protocol.errors import (
    MetadataUnavailableError,
    NotEnoughBookiesError,
    OwnershipLostError,
)
from rhumbline.tests.support import servers
from rhumbline.tests.support.story import REGIONS, STREAM, Producer, Tail, begin, client_in

AWAY_S = float(os.environ.get("RHUMBLINE_AWAY_S", "3"))
SOME = 60


class Place(Protocol):
    """A store that can be made to go away."""

    uri: str

    def leave(self) -> None: ...

    def come_back(self) -> None: ...


class Sqlite:
    """Away: somebody holds the only right to write."""

    def __init__(self, path: Path) -> None:
        self.uri = f"sqlite://{path}/metadata.db"
        self._path = path / "metadata.db"
        self._holder: sqlite3.Connection | None = None

    def leave(self) -> None:
        self._holder = sqlite3.connect(self._path, isolation_level=None)
        self._holder.execute("BEGIN EXCLUSIVE")

    def come_back(self) -> None:
        assert self._holder is not None
        self._holder.close()


class Behind:
    """A server behind a proxy, which can be cut."""

    def __init__(self, scheme: str, address: str) -> None:
        self._proxy = servers.toxiproxy().proxy(address)
        self.uri = f"{scheme}://{self._proxy.address}/story-{uuid4().hex[:8]}"

    def leave(self) -> None:
        self._proxy.cut()

    def come_back(self) -> None:
        self._proxy.heal()

    def remove(self) -> None:
        self._proxy.remove()


KINDS = [
    "sqlite",
    pytest.param("zk", marks=[pytest.mark.needs_server("zookeeper")]),
    pytest.param("etcd", marks=[pytest.mark.needs_server("etcd")]),
    "fdb",
]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Sqlite(tmp_path)
        return
    if request.param == "fdb":
        pytest.skip("RHUMBLINE_FDB_CLUSTER_FILE names no FoundationDB cluster")
    server = servers.zookeeper() if request.param == "zk" else servers.etcd()
    behind = Behind(request.param, server.address)
    yield behind
    behind.remove()


def cluster_at(uri: str, root: Path) -> LocalCluster:
    pairs = combinations(REGIONS, 2)
    cluster = LocalCluster(
        root, REGIONS, bookies_per_region=1, round_trips_ms=dict.fromkeys(pairs, 4)
    )
    cluster.metadata_uri = uri
    return cluster


@pytest.mark.timeout(120)
def test_owner_killed_and_region_cut(place: Place, tmp_path: Path) -> None:
    async def run() -> None:
        async with AsyncExitStack() as closing:
            cluster = await closing.enter_async_context(cluster_at(place.uri, tmp_path / "c"))
            bonn, oslo, rome = [
                await closing.enter_async_context(client_in(cluster, region)) for region in REGIONS
            ]
            await begin(bonn)
            producer, tail = Producer(), await closing.enter_async_context(Tail(rome))
            first = await bonn.namespace().open_writer(STREAM)
            await producer.send(bonn, first, SOME)
            await tail.reaches(SOME)

            began = time.monotonic()
            writer = await oslo.namespace().open_writer(STREAM)  # the first one is not asked
            takeover_s = time.monotonic() - began
            with pytest.raises(OwnershipLostError):
                await first.append(b"from the old owner")
            await first.abort()
            writer = await producer.send(oslo, writer, SOME)
            await tail.reaches(2 * SOME)

            cluster.cut("rome")
            writer = await producer.send(oslo, writer, SOME)
            assert len(tail.seen) < 3 * SOME
            cluster.heal("rome")
            await tail.reaches(3 * SOME)
            writer = await producer.send(oslo, writer, SOME)
            await tail.reaches(4 * SOME)
            print(f"{place.uri.partition(':')[0]}: taken over in {takeover_s * 1000:.0f} ms")
            await writer.close()

    asyncio.run(run())


@pytest.mark.timeout(AWAY_S + 120)
def test_streams_go_on_while_the_metadata_is_away(place: Place, tmp_path: Path) -> None:
    """Appends and reads do not notice; to open a stream is refused, with a line that says why."""

    async def run() -> None:
        async with AsyncExitStack() as closing:
            cluster = await closing.enter_async_context(cluster_at(place.uri, tmp_path / "c"))
            bonn = await closing.enter_async_context(client_in(cluster, "bonn", 1_500))
            rome = await closing.enter_async_context(client_in(cluster, "rome"))
            await begin(bonn, (STREAM, "other"))
            producer, tail = Producer(), await closing.enter_async_context(Tail(rome))
            writer = await bonn.namespace().open_writer(STREAM)
            writer = await producer.send(bonn, writer, SOME)
            await tail.reaches(SOME)

            place.leave()
            away_until = time.monotonic() + AWAY_S
            try:
                producer.longest_pause_s = 0.0
                while time.monotonic() < away_until:
                    assert await producer.send(bonn, writer, 10) is writer
                    await tail.reaches(producer.sent)
                began = time.monotonic()
                with pytest.raises(MetadataUnavailableError) as refusal:
                    await bonn.namespace().open_writer("other")
                refused_s = time.monotonic() - began
            finally:
                place.come_back()
            assert producer.repeated == 0
            print(
                f"{place.uri.partition(':')[0]}: {producer.sent - SOME} appends in {AWAY_S} s "
                f"without metadata, the slowest {producer.longest_pause_s * 1000:.0f} ms; "
                f"opening says after {refused_s:.1f} s: {refusal.value}"
            )
            async with asyncio.timeout(30):
                while True:
                    try:
                        other = await bonn.namespace().open_writer("other")
                        break
                    except (MetadataUnavailableError, NotEnoughBookiesError):
                        await asyncio.sleep(0.1)  # bookies may have to register anew
            await other.append(b"again")
            await other.close()
            writer = await producer.send(bonn, writer, SOME)
            await tail.reaches(producer.sent)
            await writer.close()

    asyncio.run(run())


@pytest.mark.needs_server("zookeeper")
@pytest.mark.needs_server("etcd")
@pytest.mark.timeout(120)
def test_a_stream_is_written_across_three_migrations(tmp_path: Path) -> None:
    """sqlite, ZooKeeper, etcd, ZooKeeper: none lost, none doubled; owners change throughout."""
    name = f"moved-{uuid4().hex[:8]}"
    sqlite = f"sqlite://{tmp_path}/metadata.db"
    zookeeper = f"zk://{servers.zookeeper().address}/{name}"
    etcd = f"etcd://{servers.etcd().address}/{name}"

    async def run() -> None:
        async with AsyncExitStack() as closing:
            cluster = await closing.enter_async_context(cluster_at(sqlite, tmp_path / "c"))
            bonn, oslo, rome = [
                await closing.enter_async_context(client_in(cluster, region)) for region in REGIONS
            ]
            await begin(bonn)
            producer, tail = Producer(), await closing.enter_async_context(Tail(rome))
            is_over = asyncio.Event()

            async def write() -> None:
                writer = await bonn.namespace().open_writer(STREAM)
                while not is_over.is_set():
                    owner = Random(producer.sent).choice((bonn, oslo))
                    writer = await producer.send(owner, writer, 25)
                    if producer.sent % 100 == 0:  # another owner: a new segment and ledger
                        writer = await producer.anew(owner, writer)
                await writer.close()

            writing = asyncio.create_task(write())
            await asyncio.sleep(0.5)
            ledgers = [await bonn.ledger_store.next_id()]
            for source, target in ((sqlite, zookeeper), (zookeeper, etcd), (etcd, zookeeper)):
                ends = [End(await open_as_it_is(uri), uri) for uri in (source, target)]
                outcome = await Migration(ends[0], ends[1]).run()
                for end in ends:
                    await end.store.close()
                await asyncio.sleep(1.0)
                ledgers.append(await bonn.ledger_store.next_id())
                print(f"{source[:4]} to {target[:4]}: {outcome}")
            is_over.set()
            await writing
            await tail.reaches(producer.sent)
            assert ledgers == sorted(set(ledgers))
            assert bonn.store.uri == oslo.store.uri == rome.store.uri == zookeeper
            print(
                f"{producer.sent} records, longest pause of an append "
                f"{producer.longest_pause_s * 1000:.0f} ms, {producer.repeated} sent again"
            )

    asyncio.run(run())
