"""A bookie's record of starts on every metadata store with a server or a file (rule BKE-25)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from rhumbline.backends.open_store import open_store
from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.identity import IDENTITY_FILE, decode_identity
from rhumbline.core.bookie.start.start_guard import StartGuard
from rhumbline.core.bookie.start.start_record import decode
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import MetadataUnavailableError, WrongClusterError
from rhumbline.core.runtime.metadata_store import MetadataStore, Version
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.support.servers import metadata_servers
from rhumbline.tests.support.servers.store_locations import ETCD, ZOOKEEPER
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, World, entry
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

CONFIG = BookieConfig(log_file_bytes=64 << 10, session_ttl_ms=2_000)


class StoredWorld(World):
    """A world whose metadata are in a given store."""

    def __init__(self, store: MetadataStore) -> None:
        super().__init__()
        self.store = store  # type: ignore[assignment]
        self.ledgers = LedgerStore(store)
        self.directory = BookieDirectory(store)


Work = Callable[[StoredWorld, MemoryDisk, BookieId], Awaitable[None]]


@pytest.fixture(
    params=["sqlite", pytest.param("zk", marks=ZOOKEEPER), pytest.param("etcd", marks=ETCD)]
)
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    root = f"starts-{uuid4().hex}"
    if request.param == "sqlite":
        yield f"sqlite://{tmp_path}/metadata.db"
    elif request.param == "zk":
        yield f"zk://{metadata_servers.zookeeper().address}/{root}"
    else:
        yield f"etcd://{metadata_servers.etcd().address}/{root}"


def run(uri: str, work: Work) -> None:
    async def main() -> None:
        world = StoredWorld(await open_store(uri))
        await world.start()
        disk = MemoryDisk()
        bookie_id = await world.format(disk)
        await world.make_ledger(1, bookie_id)
        await work(world, disk, bookie_id)
        await world.aclose()

    asyncio.run(main())


async def started(world: World, disk: MemoryDisk) -> Bookie:
    return await world.open(disk, CONFIG, is_backup=True)


async def add(bookie: Bookie, first: int, end: int) -> None:
    wire = await Wire.connect(bookie)
    for number in range(first, end):
        assert await wire.add(entry(1, number)) == Code.OK
    await wire.aclose()


async def kill(bookie: Bookie) -> None:
    """Close the bookie without recording the end of its log."""

    async def record_nothing(end: int, limbo: str, *, is_final: bool = False) -> None:
        pass

    bookie._guard.record = record_nothing  # type: ignore[method-assign]
    await bookie.aclose()


async def limbo_reason(world: World, disk: MemoryDisk) -> str:
    bookie = await started(world, disk)
    reason = bookie.limbo_reason
    await bookie.aclose()
    return reason


def test_older_copies_are_detected(uri: str) -> None:
    async def work(world: StoredWorld, disk: MemoryDisk, _: BookieId) -> None:
        bookie = await started(world, disk)
        await add(bookie, 0, 3)
        await bookie.aclose()
        first = disk.copy()
        bookie = await started(world, disk)
        assert bookie.limbo_reason == ""
        second = disk.copy()
        files = disk.restored()
        await add(bookie, 3, 6)
        await bookie.aclose()
        assert "older copy" in await limbo_reason(world, first.copy())
        assert "older copy" in await limbo_reason(world, disk), "the other copy was started"
        assert "older copy" in await limbo_reason(world, second)
        assert "older copy" in await limbo_reason(world, files)

    run(uri, work)


@pytest.mark.parametrize("are_files", [False, True], ids=["blocks", "files"])
def test_copy_of_the_last_start_is_detected_after_a_kill(uri: str, are_files: bool) -> None:
    async def work(world: StoredWorld, disk: MemoryDisk, _: BookieId) -> None:
        bookie = await started(world, disk)
        await add(bookie, 0, 3)
        blocks = disk.copy()
        await add(bookie, 3, 6)
        await bookie._guard.record(bookie.storage.log.durable_end, "")
        files = disk.restored()
        await add(bookie, 6, 9)
        await kill(bookie)
        if are_files:
            assert "the directory is a copy" in await limbo_reason(world, files)
        else:
            assert "the log ends at" in await limbo_reason(world, blocks)

    run(uri, work)


def test_restart_after_a_kill_or_a_stop_is_no_copy(uri: str) -> None:
    async def work(world: StoredWorld, disk: MemoryDisk, _: BookieId) -> None:
        for number in range(3):
            bookie = await started(world, disk)
            assert bookie.limbo_reason == ""
            await add(bookie, number, number + 1)
            await kill(bookie)
        assert await limbo_reason(world, disk) == ""
        assert await limbo_reason(world, disk.restored()) == "", "moved after an orderly stop"

    run(uri, work)


@pytest.mark.parametrize("is_written", [False, True], ids=["request lost", "reply lost"])
def test_interrupted_start_is_continued(
    uri: str, is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(world: StoredWorld, disk: MemoryDisk, bookie_id: BookieId) -> None:
        write = world.directory.write_start

        async def write_or_fail(named: BookieId, data: bytes, expect: Version | None) -> Version:
            if is_written:
                await write(named, data, expect)
            raise MetadataUnavailableError("the process was killed here")

        with monkeypatch.context() as patch:
            patch.setattr(BookieDirectory, "write_start", staticmethod(write_or_fail))
            for _ in range(2):
                interrupted = await Bookie.open(
                    world.runtime, disk, CONFIG, world.ledgers, world.directory
                )
                with pytest.raises(MetadataUnavailableError):
                    await interrupted.serve("127.0.0.1", 0)
                await interrupted.aclose()
        assert await limbo_reason(world, disk) == ""
        identity = decode_identity(bytes(disk.files[IDENTITY_FILE]))
        assert identity.bookie_id == bookie_id
        assert identity.start == (3 if is_written else 1)

    run(uri, work)


def test_only_one_of_several_claims_succeeds(uri: str) -> None:
    """Processes that hold copies of one directory claim it at the same time."""

    async def work(world: StoredWorld, disk: MemoryDisk, bookie_id: BookieId) -> None:
        await kill(await started(world, disk))
        identity = decode_identity(bytes(disk.files[IDENTITY_FILE]))
        stores = [await open_store(uri) for _ in range(4)]
        guards = [
            StartGuard(disk.copy(), BookieDirectory(store), identity, world.runtime.random)
            for store in stores
        ]
        for guard in guards:
            await guard.check()
        results = await asyncio.gather(
            *(guard.claim(number, "") for number, guard in enumerate(guards)),
            return_exceptions=True,
        )
        (winner,) = [guard for guard, result in zip(guards, results, strict=True) if result is None]
        losers = [result for result in results if result is not None]
        assert len(losers) == 3
        assert all(isinstance(error, WrongClusterError) for error in losers)
        await winner.record(100, "")
        value = await world.directory.read_start(bookie_id)
        assert value is not None
        assert decode(value.data).token == winner.identity.token
        assert decode(value.data).end == 100
        for store in stores:
            await store.close()

    run(uri, work)
