"""Readers in a region whose metadata store is out of reach (rules STR-28 and STR-30)."""

import asyncio

import pytest

from rhumbline.core.log.metadata.paths import StreamPaths, namespace_path
from rhumbline.core.log.metadata.stream_metadata import StreamRecord
from rhumbline.core.log.metadata.stream_reads import StreamReads
from rhumbline.core.metadata.read_only_store import WAIT_MS
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    InvalidArgumentError,
    MetadataUnavailableError,
    NoSuchStreamError,
    TruncatedError,
)
from rhumbline.core.protocol.start import EARLIEST, LATEST, AtSequenceId, AtTxid
from rhumbline.tests.support.fakes.region_world import BACK_S, RegionWorld, in_region


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
    async with await world.reader_namespace.open_reader("s", LATEST) as reader:
        assert reader.metadata_age_ms is None
        assert reader.confirmed_position() == await world.namespace.end("s")
    await asyncio.sleep(60)
    world.regional.cut_off()
    async with await world.reader_namespace.open_reader("s", LATEST) as reader:
        assert reader.position <= await world.namespace.end("s")
        assert reader.metadata_age_ms == 60_000 + WAIT_MS
        with pytest.raises(MetadataUnavailableError, match="may be after"):
            reader.confirmed_position()
    with pytest.raises(MetadataUnavailableError):
        await world.reader_namespace.end("s")


@in_region
async def test_one_failed_read_of_a_ledger_does_not_make_the_end_older(world: RegionWorld) -> None:
    """The store was in reach, but the first response of a bookie was taken for the end."""
    async with await world.writer("s") as writer:
        await writer.append(b"3", txid=3)
        world.ledgers.refresh_errors = [MetadataUnavailableError("the response was lost")]
        async with await world.reader_namespace.open_reader("s", LATEST) as reader:
            assert world.ledgers.refresh_errors == []
            assert world.ledgers.lac_queries == [True]
            assert world.reads.stale_reads == 0
            assert reader.metadata_age_ms is None
            assert reader.position == await world.namespace.end("s")


@in_region
async def test_an_end_that_a_store_in_reach_cannot_confirm_is_not_guessed(
    world: RegionWorld,
) -> None:
    async with await world.writer("s") as writer:
        await writer.append(b"3", txid=3)
        world.ledgers.refresh_errors = [MetadataUnavailableError("a lost node")] * 1000
        with pytest.raises(MetadataUnavailableError, match="a lost node"):
            await world.reader_namespace.open_reader("s", LATEST)
        assert world.ledgers.lac_queries == []


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
async def test_an_end_by_metadata_of_an_earlier_stream_is_searched_again(
    world: RegionWorld,
) -> None:
    """The store comes back while the reader searches with the record of the deleted stream."""
    world.regional.cut_off()
    await world.namespace.delete_stream("s")
    await world.write(b"7")
    record_and_age = StreamReads.record_and_age

    async def then_comes_back(reads: StreamReads, stream: str) -> tuple[StreamRecord, int | None]:
        found = await record_and_age(reads, stream)
        world.regional.reconnect()
        await asyncio.sleep(BACK_S)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamReads, "record_and_age", then_comes_back)
        async with await world.reader_namespace.open_reader("s", LATEST) as reader:
            assert reader.position == await world.namespace.end("s")


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
async def test_a_description_without_its_segments_says_that_it_is_old(world: RegionWorld) -> None:
    """The store went away after the record was read: the stream seemed to have no segments."""
    await world.reads.get(namespace_path("test"))
    world.regional.get_alls_before_cut = 1
    world.regional.has_server = False
    old = await world.reader_namespace.describe("s")
    assert old.segments == ()
    assert old.metadata_age_ms == WAIT_MS


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
