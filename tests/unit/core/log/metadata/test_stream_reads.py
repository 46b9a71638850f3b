"""Readers in a region whose metadata store is out of reach (rules STR-28 and STR-30)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rhumbline.backends.memory import MemoryTree
from rhumbline.core.log.config import ReaderConfig
from rhumbline.core.log.metadata.paths import StreamPaths
from rhumbline.core.log.namespace import Namespace, create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.metadata.read_only_store import PROBE_MS, WAIT_MS, ReadOnlyStore
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    InvalidArgumentError,
    MetadataUnavailableError,
    NoSuchStreamError,
    TruncatedError,
)
from rhumbline.core.protocol.start import EARLIEST, LATEST, AtSequenceId, AtTxid, Start
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.regional_store import RegionalStore

BACK_S = (PROBE_MS + WAIT_MS) / 1000
"""Time after which a handle has noticed that its store is in reach again."""


class RegionWorld(LogWorld):
    """Writers that always reach the store, and readers in a region that a test cuts off."""

    def __init__(self) -> None:
        super().__init__()
        tree = MemoryTree()
        self.store = RegionalStore(tree)
        self.namespace = self.open_namespace()
        self.regional = RegionalStore(tree)
        self.reads = ReadOnlyStore(self.regional)
        self.reader_namespace = Namespace(
            self.runtime,
            self.regional,
            self.ledgers.client(),
            "test",
            reader_config=ReaderConfig(retry_ms=100, poll_ms=500, unavailable_ms_max=20_000),
            reads=self.reads,
        )

    async def write(self, *payloads: bytes) -> None:
        """Write records into a segment of their own."""
        async with await self.writer("s") as writer:
            for payload in payloads:
                await writer.append(payload, txid=int(payload))

    async def read(self, count: int, start: Start | Dlsn = EARLIEST) -> list[bytes]:
        """Read in the region, from ``start`` on."""
        async with await self.reader_namespace.open_reader("s", start) as reader:
            return [(await asyncio.wait_for(anext(reader), 30)).payload for _ in range(count)]


def in_region(test: Callable[[RegionWorld], Awaitable[None]]) -> Callable[[], None]:
    """Run a test in a world whose stream has the records 1 and 2, in two segments."""

    def run() -> None:
        async def body() -> None:
            world = RegionWorld()
            await create_namespace(world.store, world.runtime, "test", StreamPolicy())
            await world.write(b"1")
            await world.write(b"2")
            await test(world)
            await world.reads.aclose()

        run_jumping(body())

    run.__name__ = test.__name__
    return run


@in_region
async def test_readers_open_and_follow_in_a_region_that_is_cut_off(world: RegionWorld) -> None:
    writer = await world.writer("s")
    await writer.append(b"3", txid=3)
    world.regional.cut_off()
    async with await world.reader_namespace.open_reader("s", EARLIEST) as reader:
        assert [(await anext(reader)).payload for _ in range(3)] == [b"1", b"2", b"3"]
        await writer.append(b"4", txid=4)
        assert (await asyncio.wait_for(anext(reader), 30)).payload == b"4"
    assert await world.read(2, AtTxid(3)) == [b"3", b"4"]
    assert await world.read(3, AtSequenceId(1)) == [b"2", b"3", b"4"]
    assert world.reads.is_out_of_reach
    await writer.close()


@in_region
async def test_segments_that_are_not_known_here_follow_after_the_cut(world: RegionWorld) -> None:
    world.regional.cut_off()
    await world.write(b"3")
    async with await world.reader_namespace.open_reader("s", EARLIEST) as reader:
        assert [(await anext(reader)).payload for _ in range(2)] == [b"1", b"2"]
        with pytest.raises(MetadataUnavailableError):
            await anext(reader)
        world.regional.reconnect()
        assert (await asyncio.wait_for(anext(reader), 30)).payload == b"3"


@in_region
async def test_latest_is_the_end_that_is_known_here_and_the_end_itself_is_not(
    world: RegionWorld,
) -> None:
    world.regional.cut_off()
    async with await world.reader_namespace.open_reader("s", LATEST) as reader:
        assert reader.position <= await world.namespace.end("s")
    with pytest.raises(MetadataUnavailableError):
        await world.reader_namespace.end("s")


@in_region
async def test_nothing_is_denied_on_the_word_of_old_metadata(world: RegionWorld) -> None:
    world.regional.cut_off()
    namespace = world.reader_namespace
    with pytest.raises(MetadataUnavailableError):
        await namespace.open_reader("other", EARLIEST)
    with pytest.raises(MetadataUnavailableError):
        await namespace.open_reader("s", AtSequenceId(7))
    world.regional.reconnect()
    await asyncio.sleep(BACK_S)
    with pytest.raises(NoSuchStreamError):
        await namespace.open_reader("other", EARLIEST)
    with pytest.raises(InvalidArgumentError):
        await namespace.open_reader("s", AtSequenceId(7))


@in_region
async def test_an_end_that_only_old_metadata_knows_is_not_believed(world: RegionWorld) -> None:
    """The stream was ended, deleted and made again; this region has only heard of the first."""
    async with await world.writer("s") as writer:
        await writer.end_stream()
    first = (await world.segments("s"))[-1]
    world.regional.cut_off()
    await world.namespace.delete_stream("s")
    await world.write(b"7")
    async with await world.reader_namespace.open_reader(
        "s", Dlsn(first.lssn, first.last_entry_id + 1, 0)
    ) as reader:
        with pytest.raises(MetadataUnavailableError):
            await anext(reader)
        world.regional.reconnect()
        await asyncio.sleep(BACK_S)
        with pytest.raises(NoSuchStreamError):
            await anext(reader)


@in_region
async def test_old_segments_of_another_stream_are_not_those_of_the_stream(
    world: RegionWorld,
) -> None:
    """The stream was deleted and made again; this region has the new record, and old segments.

    A reader delivered records of the first stream as records of the second one.
    """
    namespace = world.reader_namespace
    assert await world.read(2) == [b"1", b"2"]
    await namespace.describe("s")
    await world.namespace.delete_stream("s")
    await world.write(b"7")
    await world.reads.get(StreamPaths("test", "s").stream)
    world.regional.has_server = False
    world.regional.cut_off()
    with pytest.raises(MetadataUnavailableError):
        await namespace.describe("s")
    for start in (LATEST, AtTxid(1), AtSequenceId(1)):
        with pytest.raises(MetadataUnavailableError):
            await namespace.open_reader("s", start)
    async with await namespace.open_reader("s", EARLIEST) as reader:
        with pytest.raises(MetadataUnavailableError, match="another stream of the same name"):
            await anext(reader)
        world.regional.reconnect()
        await asyncio.sleep(BACK_S)
        assert (await anext(reader)).payload == b"7"


@in_region
async def test_truncation_is_only_told_on_the_word_of_the_store(world: RegionWorld) -> None:
    await world.namespace.truncate("s", Dlsn(2, 0, 0))
    world.regional.cut_off()
    with pytest.raises(MetadataUnavailableError):
        await world.reader_namespace.open_reader("s", Dlsn(1, 0, 0))
    assert await world.read(1, EARLIEST) == [b"2"]
    await world.namespace.untruncate("s")
    world.regional.reconnect()
    await asyncio.sleep(BACK_S)
    assert await world.read(2, Dlsn(1, 0, 0)) == [b"1", b"2"]
    await world.namespace.truncate("s", Dlsn(2, 0, 0))
    with pytest.raises(TruncatedError):
        await world.reader_namespace.open_reader("s", Dlsn(1, 0, 0))


@in_region
async def test_a_description_says_how_old_it_is(world: RegionWorld) -> None:
    namespace = world.reader_namespace
    current = await namespace.describe("s")
    assert current.metadata_age_ms is None
    await asyncio.sleep(60)
    world.regional.cut_off()
    await world.write(b"3")
    old = await namespace.describe("s")
    assert old.metadata_age_ms == 60_000 + WAIT_MS
    assert old.segments == current.segments
    world.regional.reconnect()
    await asyncio.sleep(BACK_S)
    new = await namespace.describe("s")
    assert new.metadata_age_ms is None
    assert len(new.segments) == len(old.segments) + 1


@in_region
async def test_writers_never_read_old_metadata(world: RegionWorld) -> None:
    """Everything but reading fails without the store, in a process that may read old metadata."""
    world.regional.cut_off()
    namespace = world.reader_namespace
    for change in (
        namespace.open_writer("s"),
        namespace.create_stream("t"),
        namespace.truncate("s", Dlsn(2, 0, 0)),
        namespace.maintain("s"),
        namespace.delete_stream("s"),
        namespace.take_over("s"),
    ):
        with pytest.raises(MetadataUnavailableError):
            await change
    assert world.regional.stale_gets == []
