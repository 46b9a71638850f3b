"""Readers while the metadata store is away: it answers no call before its time-out."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.read.ledger_reader import LedgerReader
from rhumbline.core.ledger.read.metadata_refresh import LOOK_MS
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import ClosedError, NoSuchEntryError, UnavailableError
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.core.wire.entry import Entry
from rhumbline.core.wire.registration import Registration
from rhumbline.tests.unit.core.ledger.world import (
    FakeDirectory,
    FakeLedgers,
    MetadataAwayError,
    Outcomes,
    World,
    until,
)

TIMEOUT_S = 10.0
ALL = Quorum(3, 3, 3, 2)


class SlowLedgers(FakeLedgers):
    """Reads take a while; while it is away they end in an error."""

    delay_s = 0.0

    async def read(self, ledger_id: int) -> tuple[LedgerMetadata, Version]:
        await asyncio.sleep(self.delay_s)
        return await super().read(ledger_id)


class SlowDirectory(FakeDirectory):
    """It knows the addresses that it was asked for before."""

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
    """A world whose store can be made to keep everybody waiting."""

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
    """As who reads a stream does."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await reader.read(first, last)
            except (UnavailableError, NoSuchEntryError):
                await asyncio.sleep(0.05)


def test_a_failed_read_goes_on_with_the_replicas_that_it_knows() -> None:
    """All replicas were out of reach for a moment. The store's time-out is nobody's pause."""
    world = SlowWorld()

    async def main() -> None:
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

    world.run(main())


def test_failed_reads_share_one_look_that_does_not_pile_up() -> None:
    world = SlowWorld()

    async def main() -> None:
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

            assert await timed(fails) < LOOK_MS / 1000 + 0.4
            assert await timed(fails) < 0.4
            await reader.aclose()  # the look in flight ends with it
            with pytest.raises(ClosedError):
                await reader.read(0, 4)

    world.run(main())


def test_what_a_slow_store_says_later_still_counts() -> None:
    """Bug B24 with a store that takes two seconds, and without the hint of a watch."""
    world = SlowWorld("abcabc")

    async def main() -> None:
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

    world.run(main())


def test_replicas_that_were_never_asked_can_be_reached() -> None:
    """The nearest does not have an entry; the others' addresses were learnt while they could be."""
    world = SlowWorld()

    async def main() -> None:
        async with world.client("a") as client, world.client("c") as other:
            writer = await written(client, 5)
            await writer.close()
            world.slow_directory.known.clear()  # what the writer learnt: it is another process
            reader = await other.open(writer.ledger_id)
            assert len(await reader.read(0, 3)) == 4
            await asyncio.sleep(0.1)
            world.leave()
            near = next(bookie for bookie in world.bookies if str(bookie.region) == "c")
            del near.entries[writer.ledger_id, 4]
            assert await timed(lambda: insist(reader, 4, 4)) < 0.1

    world.run(main())


def test_reads_do_without_regions_that_cannot_be_looked_up() -> None:
    """The first read waits a little, the others not at all; later the nearest is asked first."""
    world = SlowWorld()

    async def main() -> None:
        async with world.client("a") as client, world.client("c") as other:
            writer = await written(client, 5)
            await writer.close()
            reader = await other.open(writer.ledger_id)
            world.leave()
            assert await timed(lambda: reader.read(0, 4)) < LOOK_MS / 1000 + 0.1
            assert await timed(lambda: reader.read(0, 4)) < 0.1
            world.come_back()
            await asyncio.sleep(TIMEOUT_S)
            for bookie in world.bookies:
                bookie.requests.clear()
            await reader.read(0, 4)
            assert [len(bookie.requests) for bookie in world.bookies] == [0, 0, 1]

    world.run(main())


def test_bookies_of_an_outdated_ensemble_are_not_believed_while_the_store_is_away() -> None:
    """All of them say that they never had an entry that is confirmed: others have it."""
    world = SlowWorld("aabbcc")

    async def main() -> None:
        async with world.client("a") as client, world.client("c") as other:
            writer = await written(client, 5)
            reader = await other.open(writer.ledger_id)
            reader.learn_lac(3)
            assert len(await reader.read(0, 3)) == 4
            world.ledgers.watches.clear()  # the news of the change does not arrive
            before = set(reader.metadata.last_fragment.bookies)
            writer.failures.mask = 0b111
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

    world.run(main())
