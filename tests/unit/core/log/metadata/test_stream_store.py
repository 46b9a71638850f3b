"""Whatever becomes of a request or its reply, a change is made once and its maker knows."""

import itertools

import pytest

from rhumbline.core.log.metadata.stream_metadata import StreamRecord
from rhumbline.core.log.metadata.stream_store import StoredSegment, StreamStore, WriterClaim
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    MetadataUnavailableError,
    StreamExistsError,
    StreamLostError,
)
from rhumbline.core.protocol.segments import Segment, SegmentEnd
from rhumbline.tests.support.fakes.log_world import LogWorld, in_world
from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY, LOST_REQUEST, OK, UNAVAILABLE

FATES = [
    list(fates)
    for length in (1, 2, 3)
    for fates in itertools.product([OK, LOST_REPLY, LOST_REQUEST], repeat=length)
]


def streams_of(world: LogWorld) -> StreamStore:
    return StreamStore(world.store, "test")


async def created(world: LogWorld) -> StreamStore:
    streams = streams_of(world)
    await streams.create("s", StreamRecord("me", 1))
    return streams


def segment(lssn: int, claim: WriterClaim, ledger_id: int = 7) -> Segment:
    return Segment(lssn=lssn, ledger_id=ledger_id, epoch=claim.head.epoch, created_ms=1)


END = SegmentEnd(0, 5, 1, 3, False)


@pytest.mark.parametrize("fates", FATES, ids="-".join)
def test_creation_is_made_once(fates: list[str]) -> None:
    @in_world
    async def body(world: LogWorld) -> None:
        streams = streams_of(world)
        world.store.fates = list(fates)
        await streams.create("s", StreamRecord("me", 1))
        assert (await streams.record("s"))[0].identity == "me"
        world.store.fates = []
        with pytest.raises(StreamExistsError):
            await streams.create("s", StreamRecord("other", 1))

    body()


@pytest.mark.parametrize("fates", FATES, ids="-".join)
def test_a_claim_counts_once(fates: list[str]) -> None:
    @in_world
    async def body(world: LogWorld) -> None:
        streams = await created(world)
        world.store.fates = list(fates)
        claim = await streams.claim("s", "token")
        assert (claim.head.epoch, claim.head.token) == (1, "token")
        assert (await streams.head("s")) == (claim.head, claim.version)

    body()


@pytest.mark.parametrize("fates", FATES, ids="-".join)
def test_publication_and_completion_are_made_once(fates: list[str]) -> None:
    @in_world
    async def body(world: LogWorld) -> None:
        streams = await created(world)
        claim = await streams.claim("s", "token")
        world.store.fates = list(fates)
        claim, stored = await streams.publish(claim, segment(1, claim))
        assert (await streams.segment("s", 1)) == stored
        done = stored.segment.completed(END, previous=None, completed_ms=2)
        world.store.fates = list(fates)
        completed = await streams.complete(claim, stored, done)
        assert (await streams.segment("s", 1)) == completed
        assert completed.segment == done
        assert await streams.complete(claim, stored, done) == completed

    body()


@pytest.mark.parametrize("fates", FATES, ids="-".join)
def test_truncation_is_made_once(fates: list[str]) -> None:
    @in_world
    async def body(world: LogWorld) -> None:
        streams = await created(world)
        world.store.fates = list(fates)
        await streams.update("s", lambda record: record.truncated(Dlsn(3, 0, 0)))
        assert (await streams.record("s"))[0].start == Dlsn(3, 0, 0)

    body()


@in_world
async def test_whoever_lost_the_claim_changes_nothing(world: LogWorld) -> None:
    streams = await created(world)
    old = await streams.claim("s", "old")
    old, stored = await streams.publish(old, segment(1, old))
    new = await streams.claim("s", "new")
    with pytest.raises(StreamLostError):
        await streams.publish(old, segment(2, old, 8))
    done = stored.segment.completed(END, previous=None, completed_ms=2)
    with pytest.raises(StreamLostError):
        await streams.complete(old, stored, done)
    assert (await streams.head("s"))[0] == new.head
    assert (await streams.segment("s", 2)) is None
    assert await streams.segment("s", 1) == stored


@in_world
async def test_a_publication_that_lost_its_reply_and_then_the_stream_says_lost(
    world: LogWorld,
) -> None:
    """Carried out, reply lost, and before the look another writer claimed."""
    streams = await created(world)
    claim = await streams.claim("s", "old")
    world.store.fates = [LOST_REPLY]
    reads = 0

    async def takes_over() -> None:
        other = streams_of(world)
        await other.claim("s", "new")

    original = world.store.inner.get

    async def get(path: str, *, stale_ok: bool = False) -> object:
        nonlocal reads
        reads += 1
        if reads == 1:
            await takes_over()
        return await original(path, stale_ok=stale_ok)

    world.store.inner.get = get  # type: ignore[method-assign, assignment]
    with pytest.raises(StreamLostError):
        await streams.publish(claim, segment(1, claim))
    found = await streams.segment("s", 1)
    assert found is not None


@in_world
async def test_an_unavailable_store_says_so_and_nothing_happened(world: LogWorld) -> None:
    streams = await created(world)
    for call in (
        streams.claim("s", "t"),
        streams.create("t", StreamRecord("me", 1)),
        streams.update("s", lambda record: record.truncated(Dlsn(2, 0, 0))),
    ):
        world.store.fates = [UNAVAILABLE]
        with pytest.raises(MetadataUnavailableError):
            await call
    assert (await streams.head("s"))[0].epoch == 0
    assert (await streams.record("s"))[0].start == Dlsn(1, 0, 0)


@in_world
async def test_two_claims_at_once_leave_one_winner(world: LogWorld) -> None:
    import asyncio

    streams = await created(world)
    claims = await asyncio.gather(*(streams.claim("s", f"t{n}") for n in range(5)))
    head, _ = await streams.head("s")
    assert head.epoch == 5
    published: list[StoredSegment] = []
    lost = 0
    for claim in claims:
        try:
            published.append((await streams.publish(claim, segment(1, claim)))[1])
        except StreamLostError:
            lost += 1
    assert (len(published), lost) == (1, 4)
    assert published[0].segment.epoch == 5
