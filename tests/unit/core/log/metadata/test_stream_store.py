"""Tests that a change is made once and its caller learns its outcome, despite lost messages.

The rule is STR-5.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rhumbline.core.log.metadata.paths import namespace_path
from rhumbline.core.log.metadata.stream_metadata import StreamRecord
from rhumbline.core.log.metadata.stream_reads import StoredSegment
from rhumbline.core.log.metadata.stream_store import (
    ClaimPurpose,
    Completion,
    StreamStore,
    WriterClaim,
)
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    MetadataUnavailableError,
    NamespaceMovingError,
    NoSuchNamespaceError,
    NoSuchStreamError,
    StreamExistsError,
    StreamLostError,
    StreamSealedError,
)
from rhumbline.core.protocol.segments import Segment, SegmentEnd
from rhumbline.core.runtime.metadata_store import Value
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY, LOST_REQUEST, OK, UNAVAILABLE

OUTCOMES = [
    list(outcomes)
    for length in (1, 2, 3)
    for outcomes in itertools.product([OK, LOST_REPLY, LOST_REQUEST], repeat=length)
]


def open_streams(world: LogWorld) -> StreamStore:
    return StreamStore(world.store, "test")


async def create_stream(world: LogWorld) -> StreamStore:
    streams = open_streams(world)
    await streams.create("s", StreamRecord("me", 1))
    return streams


def segment(lssn: int, claim: WriterClaim, ledger_id: int = 7) -> Segment:
    return Segment(
        lssn=lssn, stream_id="me", ledger_id=ledger_id, epoch=claim.head.epoch, created_ms=1
    )


END = SegmentEnd(0, 5, 1, 3, False)


@pytest.mark.parametrize("outcomes", OUTCOMES, ids="-".join)
async def test_stream_is_created_once(world: LogWorld, outcomes: list[str]) -> None:
    streams = open_streams(world)
    world.store.outcomes = list(outcomes)
    await streams.create("s", StreamRecord("me", 1))
    assert (await streams.record("s"))[0].identity == "me"
    world.store.outcomes = []
    with pytest.raises(StreamExistsError):
        await streams.create("s", StreamRecord("other", 1))


def a_first_segment(claim: WriterClaim) -> tuple[WriterClaim, Segment]:
    return claim, segment(1, claim)


@pytest.mark.parametrize("outcomes", OUTCOMES, ids="-".join)
async def test_claim_raises_the_epoch_once(world: LogWorld, outcomes: list[str]) -> None:
    streams = await create_stream(world)
    world.store.outcomes = list(outcomes)
    claim = await streams.claim("s", "token")
    assert (claim.head.epoch, claim.head.token) == (1, "token")
    assert (await streams.head("s")) == (claim.head, claim.version)


@pytest.mark.parametrize("outcomes", OUTCOMES, ids="-".join)
async def test_segment_is_published_and_completed_once(
    world: LogWorld, outcomes: list[str]
) -> None:
    streams = await create_stream(world)
    claim = await streams.claim("s", "token")
    world.store.outcomes = list(outcomes)
    claim, stored = await streams.publish(claim, segment(1, claim))
    assert (await streams.segment("s", 1, "me")) == stored
    done = stored.segment.completed(END, previous=None, completed_ms=2)
    world.store.outcomes = list(outcomes)
    completed = await streams.complete(claim, Completion(stored, done))
    assert (await streams.segment("s", 1, "me")) == completed
    assert completed.segment == done
    assert await streams.complete(claim, Completion(stored, done)) == completed


@pytest.mark.parametrize("outcomes", OUTCOMES, ids="-".join)
async def test_first_segment_is_published_once_with_its_claim(
    world: LogWorld, outcomes: list[str]
) -> None:
    streams = await create_stream(world)
    claim = streams.claim_at_publication("s", "token", await streams.current("s"))
    assert (claim.head.epoch, claim.head.token) == (1, "token")
    assert (await streams.head("s"))[0] == claim.stored != claim.head
    world.store.outcomes = list(outcomes)
    claim, stored = await streams.publish(claim, segment(1, claim))
    assert (claim.head.epoch, claim.head.token, claim.head.last_lssn) == (1, "token", 1)
    assert await streams.head("s") == (claim.head, claim.version)
    assert claim.replaces is None
    assert await streams.segment("s", 1, "me") == stored
    world.store.outcomes = list(outcomes)
    claim, _ = await streams.publish(claim, segment(2, claim, 8))
    assert (claim.head.epoch, claim.head.last_lssn) == (1, 2)


@pytest.mark.parametrize("outcomes", OUTCOMES, ids="-".join)
async def test_segment_is_completed_once_with_the_publication_of_the_next(
    world: LogWorld, outcomes: list[str]
) -> None:
    streams = await create_stream(world)
    await streams.publish(*a_first_segment(await streams.claim("s", "old")))
    claim = await streams.claim("s", "new")
    stored = await streams.segment("s", 1, "me")
    assert stored is not None
    done = stored.segment.completed(END, previous=None, completed_ms=2)
    world.store.outcomes = list(outcomes)
    claim, next_one = await streams.publish(claim, segment(2, claim, 8), Completion(stored, done))
    assert await streams.head("s") == (claim.head, claim.version)
    assert await streams.segment("s", 2, "me") == next_one
    completed = await streams.segment("s", 1, "me")
    assert completed is not None
    assert completed.segment == done


@pytest.mark.parametrize("outcome", [OK, LOST_REQUEST])
async def test_a_lost_claim_neither_completes_nor_publishes(world: LogWorld, outcome: str) -> None:
    streams = await create_stream(world)
    old, stored = await streams.publish(*a_first_segment(await streams.claim("s", "old")))
    new = await streams.claim("s", "new")
    done = stored.segment.completed(END, previous=None, completed_ms=2)
    world.store.outcomes = [outcome]
    with pytest.raises(StreamLostError):
        await streams.publish(old, segment(2, old, 8), Completion(stored, done))
    assert (await streams.head("s"))[0] == new.head
    assert await streams.segment("s", 1, "me") == stored
    assert await streams.segment("s", 2, "me") is None


@pytest.mark.parametrize("outcome", [OK, LOST_REQUEST])
async def test_first_publication_loses_to_a_claim_since_the_read(
    world: LogWorld, outcome: str
) -> None:
    streams = await create_stream(world)
    late = streams.claim_at_publication("s", "late", await streams.current("s"))
    other = await streams.claim("s", "other")
    world.store.outcomes = [outcome]
    with pytest.raises(StreamLostError):
        await streams.publish(late, segment(1, late))
    assert (await streams.head("s"))[0] == other.head
    assert await streams.segment("s", 1, "me") is None


async def test_sealed_stream_is_not_claimed_at_the_publication(world: LogWorld) -> None:
    streams = await create_stream(world)
    await streams.claim("s", "operator", ClaimPurpose.SEAL)
    with pytest.raises(StreamSealedError):
        streams.claim_at_publication("s", "writer", await streams.current("s"))


@pytest.mark.parametrize("outcomes", OUTCOMES, ids="-".join)
async def test_truncation_is_applied_once(world: LogWorld, outcomes: list[str]) -> None:
    streams = await create_stream(world)
    world.store.outcomes = list(outcomes)
    await streams.update("s", lambda record: record.truncated(Dlsn(3, 0, 0)))
    assert (await streams.record("s"))[0].start == Dlsn(3, 0, 0)


async def test_writer_that_lost_its_claim_changes_nothing(world: LogWorld) -> None:
    streams = await create_stream(world)
    old = await streams.claim("s", "old")
    old, stored = await streams.publish(old, segment(1, old))
    new = await streams.claim("s", "new")
    with pytest.raises(StreamLostError):
        await streams.publish(old, segment(2, old, 8))
    done = stored.segment.completed(END, previous=None, completed_ms=2)
    with pytest.raises(StreamLostError):
        await streams.complete(old, Completion(stored, done))
    assert (await streams.head("s"))[0] == new.head
    assert (await streams.segment("s", 2, "me")) is None
    assert await streams.segment("s", 1, "me") == stored


async def test_publication_with_lost_reply_and_lost_claim_raises_stream_lost(
    world: LogWorld,
) -> None:
    """The publication is carried out, its reply is lost, and then another writer claims."""
    streams = await create_stream(world)
    claim = await streams.claim("s", "old")
    world.store.outcomes = [LOST_REPLY]
    reads = 0

    async def take_over() -> None:
        other = open_streams(world)
        await other.claim("s", "new")

    original = world.store.inner.get

    async def get(path: str, *, stale_ok: bool = False) -> object:
        nonlocal reads
        reads += 1
        if reads == 1:
            await take_over()
        return await original(path, stale_ok=stale_ok)

    world.store.inner.get = get  # type: ignore[method-assign, assignment]
    with pytest.raises(StreamLostError):
        await streams.publish(claim, segment(1, claim))
    found = await streams.segment("s", 1, "me")
    assert found is not None


async def test_unavailable_store_raises_and_changes_nothing(world: LogWorld) -> None:
    streams = await create_stream(world)
    for call in (
        streams.claim("s", "t"),
        streams.create("t", StreamRecord("me", 1)),
        streams.update("s", lambda record: record.truncated(Dlsn(2, 0, 0))),
    ):
        world.store.outcomes = [UNAVAILABLE]
        with pytest.raises(MetadataUnavailableError):
            await call
    assert (await streams.head("s"))[0].epoch == 0
    assert (await streams.record("s"))[0].start == Dlsn(1, 0, 0)


async def test_current_stream_has_its_own_policy_or_that_of_its_namespace(
    world: LogWorld,
) -> None:
    own = replace(world.policy, roll_ms=7_000)
    streams = await create_stream(world)
    await streams.create("own", StreamRecord("other", 1, own))
    current = await streams.current("s")
    assert current.record == StreamRecord("me", 1)
    assert current.policy == world.policy
    assert (current.head, current.head_version) == await streams.head("s")
    assert (await streams.current("own")).policy == own

    original = world.store.get_all

    async def without_namespace(
        paths: Sequence[str], *, stale_ok: bool = False
    ) -> list[Value | None]:
        found = await original(paths, stale_ok=stale_ok)
        at = paths.index(namespace_path("test"))
        return [*found[:at], None, *found[at + 1 :]]

    world.store.get_all = without_namespace  # type: ignore[method-assign]
    assert (await streams.current("own")).policy == own
    with pytest.raises(NoSuchNamespaceError, match="no namespace test"):
        await streams.current("s")


async def test_reading_a_stream_that_must_not_change_is_refused(world: LogWorld) -> None:
    streams = await create_stream(world)
    paths = streams.paths("s")
    record = (await streams.record("s"))[0]
    with pytest.raises(NoSuchStreamError, match="no stream t"):
        await streams.current("t")
    for refused, error in (
        (replace(record, is_deleting=True), NoSuchStreamError),
        (replace(record, is_moving=True), NamespaceMovingError),
    ):
        await world.store.put(paths.stream, refused.encode())
        with pytest.raises(error, match="being"):
            await streams.current("s")
    await world.store.put(paths.stream, record.encode())
    await world.store.delete(paths.head)  # read while the deletion of the stream ends
    with pytest.raises(NoSuchStreamError):
        await streams.current("s")


async def test_current_stream_never_mixes_two_streams_of_one_name(world: LogWorld) -> None:
    """A store may read the nodes one after the other, and the stream is created anew meanwhile."""
    streams = await create_stream(world)
    paths = streams.paths("s")
    original = world.store.get_all
    before = await original([paths.stream])

    async def get_all(wanted: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        found = await original(wanted, stale_ok=stale_ok)
        return before + found[1:] if reads.pop(0) else found

    await world.store.delete(paths.head)
    await world.store.delete(paths.stream)
    await streams.create("s", StreamRecord("you", 2))
    world.store.get_all = get_all  # type: ignore[method-assign, assignment]
    reads = [True, False]
    assert (await streams.current("s")).record.identity == "you"
    reads = [True] * 100
    with pytest.raises(MetadataUnavailableError, match="different streams"):
        await streams.current("s")


async def test_claim_with_a_read_that_is_old_reads_the_head_again(world: LogWorld) -> None:
    streams = await create_stream(world)
    current = await streams.current("s")
    reads = world.store.reads
    first = await streams.claim("s", "first", current=current)
    assert world.store.reads == reads
    second = await streams.claim("s", "second", current=current)
    assert (first.head.epoch, second.head.epoch) == (1, 2)
    with pytest.raises(StreamLostError):
        await streams.publish(first, segment(1, first))
    await streams.publish(second, segment(1, second))


async def test_concurrent_claims_leave_one_winner(world: LogWorld) -> None:
    import asyncio

    streams = await create_stream(world)
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
