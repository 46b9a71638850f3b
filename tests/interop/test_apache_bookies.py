"""Rhumbline's ledger client on Apache BookKeeper's unmodified bookies."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from rhumbline.client.connect import Client
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.errors import LedgerFencedError, NoSuchLedgerError, RhumblineError
from rhumbline.core.protocol.ledger_metadata import LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.support.servers.apache import (
    ApacheBookie,
    bookkeeper_jars,
    initialise,
    run_java,
)
from rhumbline.tests.support.servers.metadata_servers import ZooKeeper, started

T = TypeVar("T")

pytestmark = [pytest.mark.needs_server("apache-bookkeeper"), pytest.mark.timeout(600)]

QUORUM = Quorum(3, 3, 2)
PASSWORD = b"secret"
_BOOKIES = 4


class Cluster:
    """ZooKeeper and four Apache bookies, three of which hold each ledger."""

    def __init__(self) -> None:
        self.zookeeper = started(ZooKeeper)
        self.zookeeper.start()
        initialise(self.zookeeper.address)
        self.bookies = [ApacheBookie(self.zookeeper.address) for _ in range(_BOOKIES)]
        for bookie in self.bookies:
            bookie.launch()
        for bookie in self.bookies:
            bookie.wait_ready()

    def stop(self) -> None:
        for bookie in self.bookies:
            bookie.remove()
        self.zookeeper.remove()

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run ``work`` with a Rhumbline client, once all bookies are registered."""

        async def main() -> T:
            async with Client(f"zk://{self.zookeeper.address}") as client:
                for _ in range(600):
                    if len(await client.directory.writable()) == _BOOKIES:
                        return await work(client)
                    await asyncio.sleep(0.05)
                raise AssertionError("the bookies did not register within 30 s")

        return asyncio.run(main())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    started(bookkeeper_jars)
    made = Cluster()
    yield made
    made.stop()


def payload(entry_id: int) -> bytes:
    """Return the payload that Interop.java expects in entry ``entry_id``."""
    return f"entry {entry_id} {'x' * (entry_id % 200)}".encode()


async def add(writer: LedgerWriter, count: int) -> None:
    """Add ``count`` entries and wait until all are acknowledged."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    last = writer.last_add_pushed + count

    def on_done(entry_id: int, error: RhumblineError | None, _: tuple[str, ...]) -> None:
        if error is not None and not done.done():
            done.set_exception(error)
        elif entry_id == last:
            done.set_result(None)

    for _ in range(count):
        writer.add(payload(writer.last_add_pushed + 1), on_done)
    await asyncio.wait_for(done, 120)


async def read_all(client: Client, ledger_id: int, count: int) -> None:
    """Check that the ledger has exactly ``count`` entries, with the expected payloads."""
    reader = await client.ledgers.open(ledger_id, PASSWORD)
    found: list[bytes] = []
    while len(found) < count:
        found.extend(bytes(entry.payload) for entry in await reader.read(len(found), count - 1))
    assert reader.last_add_confirmed == count - 1
    await reader.aclose()
    assert found == [payload(n) for n in range(count)]


def test_a_closed_ledger_is_read_by_both_clients(cluster: Cluster) -> None:
    async def work(client: Client) -> int:
        writer = await client.ledgers.create(QUORUM, password=PASSWORD)
        await add(writer, 2000)
        closed = await writer.close()
        assert (closed.state, closed.last_entry_id) == (LedgerState.CLOSED, 1999)
        await read_all(client, writer.ledger_id, 2000)
        return writer.ledger_id

    ledger = cluster.run(work)
    printed = run_java(cluster.zookeeper.address, "v3", f"read:{ledger}")
    assert printed[f"read:{ledger}"] == "entries=2000 closed=true"


@pytest.mark.long
def test_a_tailing_reader_follows_the_writer_by_long_poll(cluster: Cluster) -> None:
    async def work(client: Client) -> None:
        writer = await client.ledgers.create(QUORUM, password=PASSWORD)
        await add(writer, 1)
        reader = await client.ledgers.open(writer.ledger_id, PASSWORD)
        writing = asyncio.ensure_future(slowly(writer, 40))
        found: list[bytes] = []
        async with asyncio.timeout(60):
            while len(found) < 40:  # the last one becomes visible by the close
                found += [bytes(e.payload) for e in await reader.wait(len(found) - 1, 1000)]
        await writing
        assert found == [payload(n) for n in range(40)]
        await reader.aclose()

    async def slowly(writer: LedgerWriter, count: int) -> None:
        while writer.last_add_pushed < count - 1:
            await add(writer, 1)
            await asyncio.sleep(0.005)
        await writer.close()

    cluster.run(work)


@pytest.mark.long
def test_a_recovery_fences_the_writer_and_finds_every_acknowledged_entry(cluster: Cluster) -> None:
    async def work(client: Client) -> None:
        writer = await client.ledgers.create(QUORUM, password=PASSWORD)
        await add(writer, 500)
        async with Client(f"zk://{cluster.zookeeper.address}") as other:
            closed = await other.ledgers.recover(writer.ledger_id, PASSWORD)
        assert closed.last_entry_id == 499
        with pytest.raises(RhumblineError) as caught:
            await add(writer, 1)
        assert isinstance(caught.value.__cause__ or caught.value, LedgerFencedError)
        await read_all(client, writer.ledger_id, 500)

    cluster.run(work)


@pytest.mark.long
def test_a_killed_bookie_is_replaced_and_nothing_is_lost(cluster: Cluster) -> None:
    async def work(client: Client) -> None:
        writer = await client.ledgers.create(QUORUM, password=PASSWORD)
        await add(writer, 200)
        member = next(
            b for b in cluster.bookies if b.address in writer.metadata.last_fragment.bookies
        )
        member.kill()
        await add(writer, 200)
        await writer.close()
        await read_all(client, writer.ledger_id, 400)
        member.start()

    cluster.run(work)


@pytest.mark.long
def test_a_deleted_ledger_is_gone(cluster: Cluster) -> None:
    async def work(client: Client) -> None:
        writer = await client.ledgers.create(QUORUM, password=PASSWORD)
        await add(writer, 10)
        await writer.close()
        await client.ledgers.delete(writer.ledger_id)
        with pytest.raises(NoSuchLedgerError):
            await client.ledgers.open(writer.ledger_id, PASSWORD)

    cluster.run(work)
