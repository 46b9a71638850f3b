"""Readers while the metadata store is unavailable: every call ends at its time-out."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.read.ledger_reader import LedgerReader
from rhumbline.core.ledger.read.metadata_refresh import WAIT_MS_MAX, MetadataRefresh
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import ClosedError, NoSuchEntryError, UnavailableError
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.core.wire.entry import Entry
from rhumbline.core.wire.registration import Registration
from rhumbline.tests.unit.core.ledger.world import (
    FakeDirectory,
    FakeLedgers,
    MetadataAwayError,
    Outcomes,
    World,
    run_in_world,
    until,
)

pytestmark = pytest.mark.run_by(runner=run_in_world)

TIMEOUT_S = 10.0
ALL = Quorum(3, 3, 3, 2)


class SlowLedgers(FakeLedgers):
    """A store whose reads are slow, and fail while it is unavailable."""

    delay_s = 0.0

    async def read(
        self, ledger_id: int, *, stale_ok: bool = False
    ) -> tuple[LedgerMetadata, Version]:
        await asyncio.sleep(self.delay_s)
        return await super().read(ledger_id)


class SlowDirectory(FakeDirectory):
    """A directory that caches the addresses it has read before."""

    delay_s = 0.0

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.known: dict[BookieId, Registration] = {}

    async def registration(self, bookie: BookieId) -> Registration:
        if bookie not in self.known:
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
                raise MetadataAwayError("the store is away")
            self.known[bookie] = await super().registration(bookie)
        return self.known[bookie]

    async def region_of(self, bookie: BookieId) -> Region | None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
            raise MetadataAwayError("the store is away")
        return await super().region_of(bookie)


class SlowWorld(World):
    """A world whose store can be made unavailable."""

    def __init__(self, layout: str = "abc") -> None:
        super().__init__(layout, LedgerConfig(request_timeout_ms=300))
        self.slow_ledgers = SlowLedgers()
        self.slow_directory = SlowDirectory(self)
        self.ledgers = self.slow_ledgers
        self.directory = self.slow_directory

    def leave(self) -> None:
        self.ledgers.is_away = True
        self.slow_ledgers.delay_s = self.slow_directory.delay_s = TIMEOUT_S

    def come_back(self) -> None:
        self.ledgers.is_away = False
        self.slow_ledgers.delay_s = self.slow_directory.delay_s = 0.0


async def written(client: LedgerClient, count: int) -> LedgerWriter:
    writer = await client.create(ALL)
    done = Outcomes()
    for i in range(count):
        writer.add(b"%03d" % i, done)
    await until(lambda: len(done.acked) == count)
    return writer


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await work()
    return loop.time() - began


async def insist(reader: LedgerReader, first: int, last: int) -> list[Entry]:
    """Retries a read, like a stream reader does."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await reader.read(first, last)
            except (UnavailableError, NoSuchEntryError):
                await asyncio.sleep(0.05)


async def test_failed_read_continues_with_the_known_replicas() -> None:
    """All replicas were unreachable for a moment; reads must not wait for the store's time-out."""
    world = SlowWorld()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 5)
        await writer.close()
        reader = await other.open(writer.ledger_id)
        assert len(await reader.read(0, 4)) == 5
        world.leave()
        for bookie in world.bookies:
            bookie.go_down()
            asyncio.get_running_loop().call_later(0.3, bookie.come_up)
        assert 0.3 < await timed(lambda: insist(reader, 0, 4)) < 1.5


async def test_failed_reads_share_one_metadata_refresh() -> None:
    world = SlowWorld()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 5)
        await writer.close()
        reader = await other.open(writer.ledger_id)
        await reader.read(0, 4)
        world.leave()
        for bookie in world.bookies:
            bookie.go_down()

        async def fails() -> None:
            with pytest.raises(UnavailableError):
                await reader.read(0, 4)

        assert await timed(fails) < WAIT_MS_MAX / 1000 + 0.4
        assert await timed(fails) < 0.4
        await reader.aclose()  # the pending refresh ends with it
        with pytest.raises(ClosedError):
            await reader.read(0, 4)


async def test_late_response_of_a_slow_store_is_used() -> None:
    """Bug B24 with a store that takes two seconds, and without the hint of a watch."""
    world = SlowWorld("abcabc")
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 5)
        closed = await writer.close()
        reader = await other.open(writer.ledger_id)
        old = [world.by_id[b] for b in closed.last_fragment.bookies]
        new = [b for b in world.bookies if b not in old]
        for source, target in zip(old, new, strict=True):
            target.entries.update(source.entries)
            source.go_down()
        world.ledgers.watches.clear()
        world.ledgers.set(closed.with_bookies_of(0, tuple(b.bookie for b in new)))
        world.slow_ledgers.delay_s = 2.0
        assert 2.0 < await timed(lambda: insist(reader, 0, 4)) < 3.0


async def test_replicas_that_were_never_read_can_be_reached() -> None:
    """The nearest lacks an entry; the others' addresses were cached while the store responded."""
    world = SlowWorld()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 5)
        await writer.close()
        world.slow_directory.known.clear()  # cached by the writer, which is another process
        reader = await other.open(writer.ledger_id)
        assert len(await reader.read(0, 3)) == 4
        await asyncio.sleep(0.1)
        world.leave()
        near = next(bookie for bookie in world.bookies if str(bookie.region) == "c")
        del near.entries[writer.ledger_id, 4]
        assert await timed(lambda: insist(reader, 4, 4)) < 0.1


async def test_reads_succeed_while_regions_cannot_be_read() -> None:
    """The first read waits shortly, the others do not; later the nearest replica is read first."""
    world = SlowWorld()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 5)
        await writer.close()
        reader = await other.open(writer.ledger_id)
        world.leave()
        assert await timed(lambda: reader.read(0, 4)) < WAIT_MS_MAX / 1000 + 0.1
        assert await timed(lambda: reader.read(0, 4)) < 0.1
        world.come_back()
        await asyncio.sleep(TIMEOUT_S)
        for bookie in world.bookies:
            bookie.requests.clear()
        await reader.read(0, 4)
        assert [len(bookie.requests) for bookie in world.bookies] == [0, 0, 1]


async def test_outdated_ensemble_is_not_trusted_while_the_store_is_unavailable() -> None:
    """All of its bookies respond that they never had a confirmed entry: others have it."""
    world = SlowWorld("aabbcc")
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 5)
        reader = await other.open(writer.ledger_id)
        reader.learn_lac(3)
        assert len(await reader.read(0, 3)) == 4
        world.ledgers.watches.clear()  # the watch does not fire
        before = set(reader.metadata.last_fragment.bookies)
        writer.state.failed_mask = 0b111
        writer.changer.replace(0b111)
        await writer.changer.wait_idle()
        assert not before & set(writer.metadata.last_fragment.bookies)
        done = Outcomes()
        writer.add(b"005", done)
        await until(lambda: len(done.acked) == 1)
        reader.learn_lac(writer.last_add_confirmed)
        world.leave()
        with pytest.raises(UnavailableError):
            await reader.read(5, 5)
        world.come_back()
        [entry] = await insist(reader, 5, 5)
        assert entry.payload == b"005"


async def test_closing_a_refresh_cancels_its_read_at_once() -> None:
    refresh = MetadataRefresh(Tasks(), lambda: asyncio.sleep(TIMEOUT_S), "a slow read")
    await asyncio.sleep(0.1)
    assert await timed(refresh.aclose) == 0
    assert refresh.is_done
    assert not refresh.has_succeeded


async def test_closing_a_reader_ends_the_read_that_a_hint_began() -> None:
    world = SlowWorld()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 1)
        reader = await other.open(writer.ledger_id)
        world.leave()
        world.ledgers.set(world.ledgers.now(writer.ledger_id))
        await asyncio.sleep(0.1)
        name = f"refresh ledger {writer.ledger_id}"
        assert [task for task in asyncio.all_tasks() if task.get_name() == name]
        assert await timed(reader.aclose) == 0
        assert not [task for task in asyncio.all_tasks() if task.get_name() == name]
        world.come_back()
        await writer.close()


async def test_bookies_whose_regions_cannot_be_read_count_as_having_none() -> None:
    world = SlowWorld()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 1)
        reader = await other.open(writer.ledger_id)
        world.leave()
        view = await reader.view_of(reader.metadata.last_fragment)
        assert view.quorum == ALL
        assert view.regions_of(0b111) == []
        world.come_back()
        await writer.close()
