"""A sealed stream accepts no record until it is unsealed (rule STR-33)."""

import asyncio

import pytest

from rhumbline.core.log.metadata.stream_metadata import StreamHead
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.protocol.errors import (
    ForeignDataError,
    NoSuchStreamError,
    StreamLostError,
    StreamSealedError,
)
from rhumbline.core.protocol.metadata_record import decode_metadata_record
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY, LOST_REQUEST, OK
from rhumbline.tests.support.fakes.recorded_log import recorded_log


async def test_sealing_ends_the_writer_and_refuses_the_next_one_until_unsealed(
    world: LogWorld,
) -> None:
    writer = await world.writer("s")
    await writer.append(b"a")
    with recorded_log("rhumbline.core.log.namespace") as log:
        await world.namespace.seal("s")
        with pytest.raises(StreamLostError):
            await writer.append(b"x")
        known = await world.namespace.describe("s")
        assert known.is_sealed
        assert all(segment.is_completed for segment in known.segments)
        with pytest.raises(StreamSealedError, match="stream unseal"):
            await world.namespace.open_writer("s")
        assert (await world.namespace.describe("s")).segments == known.segments
        assert await world.namespace.unseal("s")
        assert not await world.namespace.unseal("s")
    assert log.events() == ["stream sealed", "stream unsealed"]
    assert log.fields("stream sealed") == [{"namespace": "test", "stream": "s"}]
    async with await world.namespace.open_writer("s") as second:
        await second.append(b"b")
    assert [r.payload for r in await world.read_all("s", 2)] == [b"a", b"b"]


async def test_unsealing_a_stream_that_is_not_sealed_does_not_disturb_its_writer(
    world: LogWorld,
) -> None:
    writer = await world.writer("s")
    assert not await world.namespace.unseal("s")
    await writer.append(b"a")
    await writer.close()


@pytest.mark.parametrize("outcomes", [[LOST_REPLY], [LOST_REQUEST, LOST_REPLY], [OK, LOST_REPLY]])
async def test_seal_and_unseal_are_carried_out_once_despite_lost_messages(
    world: LogWorld, outcomes: list[str]
) -> None:
    await (await world.writer("s")).close()
    world.store.outcomes = list(outcomes)
    await world.namespace.seal("s")
    sealed = await world.namespace.describe("s")
    world.store.outcomes = list(outcomes)
    assert await world.namespace.unseal("s")
    unsealed = await world.namespace.describe("s")
    assert (sealed.is_sealed, unsealed.is_sealed) == (True, False)
    assert unsealed.epoch == sealed.epoch + 1


async def test_a_takeover_for_repair_keeps_the_seal_and_completes_an_interrupted_one(
    world: LogWorld,
) -> None:
    writer = await world.writer("s")
    await writer.append(b"a")
    sealing = asyncio.create_task(world.namespace.seal("s"))
    while not (await world.namespace.describe("s")).is_sealed:  # noqa: ASYNC110 - polled
        await asyncio.sleep(0)
    sealing.cancel()
    await world.namespace.take_over("s")
    known = await world.namespace.describe("s")
    assert known.is_sealed
    assert all(segment.is_completed for segment in known.segments)
    await writer.abort()


async def test_a_takeover_for_an_old_head_changes_nothing(world: LogWorld) -> None:
    writer = await world.writer("s")
    streams = StreamStore(world.store, "test")
    head, _ = await streams.head("s")
    await writer.append(b"a")
    second = await world.namespace.open_writer("s")
    now = await streams.head("s")
    with pytest.raises(StreamLostError, match="meanwhile"):
        await world.namespace.take_over("s", expect=head)
    assert await streams.head("s") == now
    await second.append(b"b")
    await second.close()
    await writer.abort()


async def test_a_sealed_stream_can_be_deleted(world: LogWorld) -> None:
    await (await world.writer("s")).close()
    await world.namespace.seal("s")
    await world.namespace.delete_stream("s")
    with pytest.raises(NoSuchStreamError):
        await world.namespace.unseal("s")


def test_a_program_without_seals_refuses_a_sealed_head() -> None:
    sealed = StreamHead(3, "token", 2, is_sealed=True)
    assert StreamHead.decode("s", sealed.encode()) == sealed
    with pytest.raises(ForeignDataError, match="format 2 is newer"):
        decode_metadata_record(
            "head", sealed.encode(), version=1, fields={"epoch": int, "token": str}
        )
    with pytest.raises(AssertionError, match="STR-33"):
        sealed.extended()
