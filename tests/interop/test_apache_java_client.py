"""Apache BookKeeper's unmodified Java client on Rhumbline's bookies."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from rhumbline.client.connect import Client
from rhumbline.core.protocol.errors import LedgerFencedError, RhumblineError
from rhumbline.core.protocol.ledger_metadata import DigestType, LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.wire.entry import Entry
from rhumbline.tests.support.processes.bookies_on_zookeeper import BookiesOnZooKeeper
from rhumbline.tests.support.servers.apache import bookkeeper_jars, run_java
from rhumbline.tests.support.servers.metadata_servers import started

pytestmark = [pytest.mark.needs_server("apache-bookkeeper"), pytest.mark.timeout(600)]

PASSWORD = b"secret"
REGIONS = ("oslo", "bonn", "rome", "oslo")


def payload(entry_id: int) -> bytes:
    """Return the payload that Interop.java writes as entry ``entry_id``."""
    return f"entry {entry_id} {'x' * (entry_id % 200)}".encode()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BookiesOnZooKeeper]:
    started(bookkeeper_jars)
    with BookiesOnZooKeeper(tmp_path_factory.mktemp("bookies"), REGIONS) as made:
        yield made


def test_the_java_client_in_v3_mode(cluster: BookiesOnZooKeeper) -> None:
    printed = run_java(
        cluster.zookeeper.address,
        "v3",
        "write-and-read:10000", "tail:300", "fence-a-writer", "explicit-lac", "delete",
    )  # fmt: skip
    assert printed["write-and-read:10000"].endswith("entries=10000")
    assert printed["fence-a-writer"] == "fenced=-101"
    assert printed["explicit-lac"] == "lac=9"


@pytest.mark.long
def test_the_java_client_in_v2_mode(cluster: BookiesOnZooKeeper) -> None:
    printed = run_java(
        cluster.zookeeper.address,
        "v2",
        "write-and-read:10000", "tail:300", "fence-a-writer", "batch-read", "delete",
    )  # fmt: skip
    assert printed["fence-a-writer"] == "fenced=-101"
    assert int(printed["batch-read"].rpartition("=")[2]) < 500


@pytest.mark.long
def test_each_client_reads_ledgers_of_the_other(cluster: BookiesOnZooKeeper) -> None:
    made = run_java(cluster.zookeeper.address, "v2", "make:300")["make:300"]

    async def read_and_write(client: Client) -> int:
        java_ledger = await client.ledgers.open(int(made.removeprefix("ledger=")), PASSWORD)
        assert java_ledger.metadata.state is LedgerState.CLOSED
        assert java_ledger.metadata.digest_type is DigestType.CRC32C
        found: list[Entry] = []
        while len(found) < 300:
            found.extend(await java_ledger.read(len(found), 299))
        await java_ledger.aclose()
        assert [entry.payload for entry in found] == [payload(n) for n in range(300)]
        ledger = await client.ledgers.create(Quorum(3, 3, 2, 2), password=PASSWORD)
        await add_all(ledger.add, 300)
        await ledger.close()
        return ledger.ledger_id

    ledger = cluster.run(read_and_write)
    assert run_java(cluster.zookeeper.address, "v3", f"read:{ledger}")[f"read:{ledger}"] == (
        "entries=300 closed=true"
    )


@pytest.mark.long
def test_java_recovers_a_ledger_with_a_region_down_and_fences_its_writer(
    cluster: BookiesOnZooKeeper,
) -> None:
    """The ledger has R=2 and is open; a bookie of its ensemble is killed, then Java opens it."""

    async def leave_open(client: Client) -> tuple[int, str, RhumblineError | None]:
        writer = await client.ledgers.create(Quorum(3, 3, 2, 2), password=PASSWORD)
        await add_all(writer.add, 200)
        victim = next(b for b in writer.metadata.bookies() if b.startswith(("b1@", "b2@")))
        index = int(victim[1])
        cluster.bookies[index].kill()
        loop = asyncio.get_running_loop()
        step = f"recover:{writer.ledger_id}"
        address = cluster.zookeeper.address
        printed = await loop.run_in_executor(None, lambda: run_java(address, "v3", step))
        late: asyncio.Future[RhumblineError | None] = loop.create_future()
        writer.add(b"too late", lambda _, error, __: late.set_result(error))
        return writer.ledger_id, printed[step], await asyncio.wait_for(late, 120)

    _, printed, error = cluster.run(leave_open)
    assert printed == "entries=200"
    assert error is not None
    assert isinstance(error.__cause__ or error, LedgerFencedError)


async def add_all(
    add: Callable[[bytes, Callable[[int, RhumblineError | None, tuple[str, ...]], None]], int],
    count: int,
) -> None:
    """Add ``count`` entries and wait until all are acknowledged, in order."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    acked = []

    def on_done(entry_id: int, error: RhumblineError | None, regions: tuple[str, ...]) -> None:
        assert error is None, error
        assert len(regions) >= 2
        acked.append(entry_id)
        if len(acked) == count:
            done.set_result(None)

    for n in range(count):
        add(payload(n), on_done)
    await asyncio.wait_for(done, 120)
    assert acked == list(range(count))
