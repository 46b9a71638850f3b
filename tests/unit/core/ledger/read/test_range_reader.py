"""Range reads: which requests are sent, how many, and what a partial result is."""

import asyncio
from typing import Any

import pytest

from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.read.range_reader import RangeReader
from rhumbline.core.ledger.read.replica_order import ReplicaOrder
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    BookieUnavailableError,
    CorruptionError,
    NoSuchEntryError,
)
from rhumbline.core.protocol.ledger_metadata import DigestType, Fragment
from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.core.wire import v2
from rhumbline.core.wire.entry import Entry, EntryDigest, encode_entry
from rhumbline.tests.unit.core.ledger.world import (
    HOLD,
    FakeBookie,
    Outcomes,
    Request,
    World,
    run_in_world,
    until,
)

pytestmark = pytest.mark.run_by(runner=run_in_world)

ALL = Quorum(3, 3, 3, 1)
STRIPED = Quorum(3, 2, 2, 1)


async def written(client: LedgerClient, count: int, quorum: Quorum) -> LedgerWriter:
    writer = await client.create(quorum)
    done = Outcomes()
    for i in range(count):
        writer.add(b"%03d" % i, done)
    await until(lambda: len(done.acked) == count)
    await asyncio.sleep(0.01)
    return writer


class Reads:
    """A range reader of a writer's ledger in a client of its own, in the region ``own``."""

    def __init__(
        self, world: World, writer: LedgerWriter, client: LedgerClient, quorum: Quorum
    ) -> None:
        metadata = writer.metadata
        self.fragment = metadata.last_fragment
        regions = [world.by_id[bookie].region for bookie in self.fragment.bookies]
        self.view = QuorumView(quorum, regions)
        digest = EntryDigest(metadata.digest_type, metadata.password)
        self.reader = RangeReader(
            client._context, ReplicaOrder(client._context), writer.ledger_id, digest
        )
        for bookie in world.bookies:
            bookie.requests.clear()

    async def read(self, first: int, last: int) -> list[int]:
        return [entry.entry_id for entry in await self.entries(first, last)]

    async def entries(self, first: int, last: int) -> list[Entry]:
        return await self.reader.read(self.fragment, self.view, first, last)


def reads_of(bookie: FakeBookie) -> list[Request]:
    return [r for r in bookie.requests if isinstance(r, v2.ReadRequest | v2.BatchReadRequest)]


def all_reads(world: World) -> list[Request]:
    return [request for bookie in world.bookies for request in reads_of(bookie)]


async def test_consecutive_entries_are_read_by_one_batch_read_within_its_limits() -> None:
    world = World("abc", LedgerConfig(read_batch_bytes_max=1234))
    async with world.client("a") as client, world.client("b") as other:
        writer = await written(client, 10, ALL)
        reads = Reads(world, writer, other, ALL)
        assert await reads.read(2, 8) == list(range(2, 9))
        (request,) = reads_of(world.bookies[1])
        assert isinstance(request, v2.BatchReadRequest)
        assert (request.ledger_id, request.first_entry_id) == (writer.ledger_id, 2)
        assert (request.count_max, request.bytes_max) == (7, 1234)
        assert len(all_reads(world)) == 1
        writer.abandon()


async def test_one_entry_is_read_by_a_plain_read() -> None:
    world = World("abc")
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 3, ALL)
        reads = Reads(world, writer, other, ALL)
        (entry,) = await reads.entries(1, 1)
        assert (entry.entry_id, entry.payload, entry.length) == (1, b"001", 6)
        assert reads_of(world.bookies[2]) == [v2.ReadRequest(0, writer.ledger_id, 1, b"")]
        assert len(all_reads(world)) == 1
        writer.abandon()


async def test_two_entries_are_read_by_a_batch_read() -> None:
    world = World("abc")
    async with world.client("a") as client:
        writer = await written(client, 3, ALL)
        reads = Reads(world, writer, client, ALL)
        assert await reads.read(1, 2) == [1, 2]
        assert [type(request) for request in all_reads(world)] == [v2.BatchReadRequest]
        writer.abandon()


async def test_entries_of_a_striped_ledger_are_read_singly_from_their_write_sets() -> None:
    world = World("abc")
    async with world.client("a") as client:
        writer = await written(client, 9, STRIPED)
        reads = Reads(world, writer, client, STRIPED)
        assert await reads.read(0, 8) == list(range(9))
        assert len(all_reads(world)) == 9
        for index, name in enumerate(reads.fragment.bookies):
            for request in reads_of(world.by_id[name]):
                assert isinstance(request, v2.ReadRequest)
                assert index in STRIPED.write_set(request.entry_id)
        writer.abandon()


async def test_single_reads_are_bounded_in_number() -> None:
    world = World("abc")
    async with world.client("a") as client:
        writer = await written(client, 100, STRIPED)
        reads = Reads(world, writer, client, STRIPED)
        for bookie in world.bookies:
            bookie.script = lambda request: HOLD
        reading = asyncio.get_running_loop().create_task(reads.read(0, 99))
        await asyncio.sleep(0.1)
        assert len(all_reads(world)) == 64
        for bookie in world.bookies:
            bookie.script = None
            bookie.release()
        assert await reading == list(range(100))
        writer.abandon()


async def test_single_reads_end_once_the_bytes_of_a_batch_were_read() -> None:
    world = World("abc", LedgerConfig(read_batch_bytes_max=9))
    async with world.client("a") as client:
        writer = await written(client, 9, STRIPED)
        reads = Reads(world, writer, client, STRIPED)
        assert await reads.read(2, 8) == [2, 3, 4]
        writer.abandon()


async def test_entries_before_one_that_cannot_be_read_are_returned() -> None:
    world = World("abc")
    async with world.client("a") as client:
        writer = await written(client, 9, STRIPED)
        reads = Reads(world, writer, client, STRIPED)
        for bookie in world.bookies:
            bookie.entries.pop((writer.ledger_id, 5), None)
        assert await reads.read(3, 8) == [3, 4]
        with pytest.raises(NoSuchEntryError):
            await reads.read(5, 8)
        writer.abandon()


async def test_entries_before_a_damaged_one_are_returned_from_a_batch() -> None:
    world = World("abc")
    async with world.client("a") as client:
        writer = await written(client, 9, ALL)
        reads = Reads(world, writer, client, ALL)
        near, others = world.bookies[0], world.bookies[1:]
        near.entries[writer.ledger_id, 5] = near.entries[writer.ledger_id, 4]
        assert await reads.read(3, 8) == [3, 4]
        assert [len(reads_of(bookie)) for bookie in world.bookies] == [1, 0, 0]
        assert await reads.read(5, 8) == [5, 6, 7, 8]
        for bookie in others:
            bookie.entries[writer.ledger_id, 5] = near.entries[writer.ledger_id, 4]
        with pytest.raises(CorruptionError):
            await reads.read(5, 8)
        writer.abandon()


async def test_batch_response_without_entries_is_no_answer() -> None:
    world = World("abc")
    async with world.client("a") as client:
        writer = await written(client, 9, ALL)
        reads = Reads(world, writer, client, ALL)
        near = world.bookies[0]
        near.entries.clear()
        near.script = lambda _: v2.Code.OK
        assert await reads.read(3, 8) == list(range(3, 9))
        for bookie in world.bookies:
            bookie.entries.clear()
            bookie.script = lambda _: v2.Code.OK
        with pytest.raises(CorruptionError, match="without entries"):
            await reads.read(3, 8)
        writer.abandon()


async def test_error_of_a_batch_read_is_followed_by_another_replica() -> None:
    world = World("abc")
    async with world.client("a") as client:
        writer = await written(client, 9, ALL)
        reads = Reads(world, writer, client, ALL)
        world.bookies[0].script = lambda _: v2.Code.IO
        assert await reads.read(3, 8) == list(range(3, 9))
        assert len(reads_of(world.bookies[0])) == 1
        for bookie in world.bookies:
            bookie.script = lambda _: v2.Code.NO_ENTRY
        with pytest.raises(NoSuchEntryError):
            await reads.read(3, 8)
        writer.abandon()


async def test_more_entries_than_requested_are_not_returned() -> None:
    world = World("abc")
    async with world.client("a") as client:
        writer = await written(client, 9, ALL)
        reads = Reads(world, writer, client, ALL)
        near: Any = world.bookies[0]
        serve_batch = near.serve_batch
        near.serve_batch = lambda pipe, request, code: serve_batch(
            pipe, request._replace(count_max=request.count_max + 3), code
        )
        assert await reads.read(3, 5) == [3, 4, 5]
        writer.abandon()


async def test_replicas_that_failed_lately_are_read_last() -> None:
    world = World("abc")
    async with world.client("a") as client:
        writer = await written(client, 9, ALL)
        reads = Reads(world, writer, client, ALL)
        client._context.pool.on_failure(world.bookies[0].bookie)
        for _ in range(10):
            await reads.read(3, 5)
            await reads.read(4, 4)
        assert reads_of(world.bookies[0]) == []
        writer.abandon()


async def test_replica_that_cannot_be_reached_is_skipped() -> None:
    world = World("abc")
    async with world.client("a") as client:
        writer = await written(client, 9, ALL)
        reads = Reads(world, writer, client, ALL)
        world.bookies[0].go_down()
        await asyncio.sleep(0.01)
        assert await reads.read(3, 5) == [3, 4, 5]
        assert await reads.read(4, 4) == [4]
        for bookie in world.bookies:
            bookie.go_down()
        await asyncio.sleep(0.01)
        with pytest.raises(BookieUnavailableError):
            await reads.read(3, 5)
        with pytest.raises(BookieUnavailableError):
            await reads.read(3, 3)
        writer.abandon()


async def test_apache_bookies_get_plain_reads_only() -> None:
    world = World("a")
    apache = FakeBookie(BookieId("10.0.0.1:3181"), 9100, None)
    world.bookies.append(apache)
    world.by_id[apache.bookie] = apache
    world.loop.bookies[apache.port] = apache
    digest = EntryDigest(DigestType.CRC32C)
    for i in range(5):
        apache.entries[7, i] = encode_entry(digest, 7, i, i - 1, 1, b"x")
    world.bookies[0].entries.update(apache.entries)
    async with world.client("a") as client:
        reader = RangeReader(client._context, ReplicaOrder(client._context), 7, digest)
        fragment = Fragment(0, (world.bookies[0].bookie, apache.bookie))
        view = QuorumView(Quorum(2, 2, 2, 1), ["a", None])
        entries = await reader.read(fragment, view, 1, 4)
        assert [entry.entry_id for entry in entries] == [1, 2, 3, 4]
        assert {type(request) for request in all_reads(world)} == {v2.ReadRequest}
