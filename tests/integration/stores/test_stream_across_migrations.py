"""Tests of live migrations of the metadata while a stream is written and tailed.

No record may be lost or duplicated: the producer numbers its records, and the tail sees each once.
With RHUMBLINE_KILL_EVERY=1 the migrating process is killed before and after every one of its calls
(`make migrations`); by default only at every ninth of these moments.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from rhumbline.backends.migration import Migration, MigrationEnd, MigrationError, MigrationOutcome
from rhumbline.backends.open_store import open_without_following
from rhumbline.client.connect import Client
from rhumbline.core.protocol.errors import StreamLostError
from rhumbline.tests.support.fakes.migration_world import (
    KEYS,
    KillAfter,
    MoverKilled,
    Writers,
    killable,
)
from rhumbline.tests.support.processes.stream_scenario import (
    REGIONS,
    STREAM,
    Producer,
    Tail,
    begin,
    client_in,
    cluster_at,
)
from rhumbline.tests.support.servers import metadata_servers
from rhumbline.tests.support.servers.store_locations import (
    ETCD,
    ZOOKEEPER,
    store_location_of,
    unique_name,
)

KILL_EVERY = int(os.environ.get("RHUMBLINE_KILL_EVERY", "9"))
MOMENTS_MAX = 400


class Load:
    """A stream whose owner changes, and metadata writers; both record acknowledged writes."""

    def __init__(self, clients: list[Client], tail: Tail) -> None:
        self.clients = clients
        self.tail = tail
        self.producer = Producer()
        self.writers = Writers(pause_s=0.02)
        self.ledger_ids: list[int] = []
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await Writers.prepare(self.clients[0].store)
        self._tasks = [asyncio.create_task(self._write_stream())]
        for key in range(KEYS):
            store = self.clients[key % len(self.clients)].store
            self._tasks.append(asyncio.create_task(self.writers.run(store, key)))
        await asyncio.sleep(0.3)

    async def new_ledger(self) -> None:
        """Allocate a ledger id; all ids must be distinct and increasing."""
        self.ledger_ids.append(await self.clients[0].ledger_store.next_id())

    async def end(self) -> None:
        """Check that no write was lost or applied twice, and that no ledger id was reused."""
        self._is_over = self.writers.is_stopped = True
        for task in self._tasks:
            await task
        await self.tail.reaches(self.producer.sent)
        await self.writers.check(self.clients[0].store)
        assert self.ledger_ids == sorted(set(self.ledger_ids))

    async def _write_stream(self) -> None:
        bonn, oslo, *_ = self.clients
        writer = await bonn.namespace().open_writer(STREAM)
        while not self._is_over:
            owner = Random(self.producer.sent).choice((bonn, oslo))
            writer = await self.producer.send(owner, writer, 25)
            if self.producer.sent % 100 == 0:  # a new owner begins a new segment and ledger
                writer = await self.producer.reopen(owner, writer)
        with suppress(StreamLostError):  # a failed opening may have taken over the stream
            await writer.close()

    def line(self) -> str:
        return (
            f"{self.producer.sent} records, 0 lost, 0 duplicated, slowest append "
            f"{self.producer.longest_pause_s * 1000:.0f} ms, {self.producer.repeated} sent again; "
            f"{sum(self.writers.known)} metadata writes, longest pause "
            f"{self.writers.longest_pause_s * 1000:.0f} ms"
        )


@asynccontextmanager
async def loaded(first: str, path: Path) -> AsyncIterator[Load]:
    """A cluster with its metadata at ``first``, under load; the load is checked at the end."""
    async with AsyncExitStack() as closing:
        cluster = await closing.enter_async_context(cluster_at(first, path / "c"))
        clients = [
            await closing.enter_async_context(client_in(cluster, region)) for region in REGIONS
        ]
        await begin(clients[0])
        tail = await closing.enter_async_context(Tail(clients[-1]))
        load = Load(clients, tail)
        await load.start()
        yield load
        await load.end()


@asynccontextmanager
async def migration(source: str, target: str, kills: KillAfter) -> AsyncIterator[Migration]:
    """A migration attempt with store handles of its own."""
    async with AsyncExitStack() as closing:
        ends = []
        for uri in (source, target):
            store = await open_without_following(uri)
            closing.push_async_callback(store.close)
            ends.append(MigrationEnd(killable(store, kills), uri))
        yield Migration(*ends)


async def move(source: str, target: str) -> MigrationOutcome:
    async with migration(source, target, KillAfter(10**9)) as mover:
        return await mover.run()


def kind(uri: str) -> str:
    return uri.partition(":")[0]


@pytest.fixture(
    params=[pytest.param("real servers", marks=[ZOOKEEPER, ETCD]), "fdb model", "fdb"],
    ids=["real-servers", "fdb model", "fdb"],
)
def route(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """The URIs of the stores to which the metadata is migrated, in order."""
    sqlite = f"sqlite://{tmp_path}/metadata.db"
    if request.param != "real servers":
        with store_location_of(request.param, tmp_path) as location:
            yield [sqlite, location.uri, f"sqlite://{tmp_path}/other.db"]
        return
    zookeeper = f"zk://{metadata_servers.zookeeper().address}/{unique_name()}"
    yield [
        sqlite,
        zookeeper,
        f"etcd://{metadata_servers.etcd().address}/{unique_name()}",
        zookeeper,
    ]


async def test_a_stream_continues_across_migrations(route: list[str], tmp_path: Path) -> None:
    async with loaded(route[0], tmp_path) as load:
        await load.new_ledger()
        for source, target in pairwise(route):
            outcome = await move(source, target)
            await asyncio.sleep(0.7)
            await load.new_ledger()
            print(f"{kind(source)} to {kind(target)}: {outcome}")
        assert {client.store.uri for client in load.clients} == {route[-1]}
    print(load.line())


@pytest.mark.long
@pytest.mark.timeout(300 if KILL_EVERY > 4 else 1_800)
async def test_a_migration_killed_at_any_step_can_be_completed_or_aborted(
    route: list[str], tmp_path: Path
) -> None:
    """The kills happen before and after each call; the next attempt completes or aborts first."""
    ring = list(dict.fromkeys(route))
    hops = list(zip(ring, [*ring[1:], ring[0]], strict=True))
    steps: dict[tuple[str, str], int] = {}
    kills = 0
    began = time.monotonic()
    async with loaded(route[0], tmp_path) as load:
        moment = 0
        while len(steps) < len(hops):
            assert moment < MOMENTS_MAX, "the migration does not end"
            for number, hop in enumerate(hops):
                is_killed = await killed_at(*hop, moment + number)
                if is_killed:
                    kills += 1
                    await follow(*hop, aborts_first=(moment + number) % 2 == 1)
                elif hop not in steps:
                    steps[hop] = moment + number
                await load.new_ledger()
            moment += KILL_EVERY
    for (source, target), count in steps.items():
        print(f"{kind(source)} to {kind(target)}: at most {count} moments")
    print(f"{kills} movers killed in {time.monotonic() - began:.0f} s: {load.line()}")
    assert kills >= len(hops)


async def killed_at(source: str, target: str, moment: int) -> bool:
    """Run an attempt; return True if it was killed, False if it completed."""
    async with migration(source, target, KillAfter(moment)) as mover:
        try:
            await mover.run()
        except MoverKilled:
            return True
    return False


async def follow(source: str, target: str, *, aborts_first: bool) -> None:
    """Complete the migration by another attempt, after an abort if ``aborts_first``."""
    if aborts_first:
        async with migration(source, target, KillAfter(10**9)) as mover:
            with suppress(MigrationError):  # it was committed already
                await mover.abort()
    await move(source, target)
