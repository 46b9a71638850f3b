"""Writers of a process get a changed R of their stream's policy, or of their namespace's."""

import asyncio
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import cast

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.log.ledger_interface import LedgerProvider
from rhumbline.core.log.metadata.paths import StreamPaths
from rhumbline.core.log.namespace import Namespace, create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import MetadataUnavailableError
from rhumbline.core.protocol.ledger_metadata import (
    NAMESPACE_KEY,
    REGIONS_KEY,
    STREAM_KEY,
    Fragment,
    LedgerMetadata,
)
from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.regions.follow_policies import PolicyFollower
from rhumbline.tests.support.fakes.lossy_store import LossyStore

GEO = StreamPolicy(quorum=Quorum(3, 3, 2, 2))


class Clock:
    def wall_ms(self) -> int:
        return 1


@dataclass
class State:
    failed_mask: int = 0


class Writer:
    """A ledger writer as the follower sees it."""

    def __init__(self, stream: str, custom: dict[str, bytes] | None = None) -> None:
        bookies = tuple(BookieId(f"b{number}") for number in range(3))
        own = {NAMESPACE_KEY: b"n", STREAM_KEY: stream.encode(), **(custom or {})}
        self.metadata = LedgerMetadata(1, 3, 3, 2, (Fragment(0, bookies),), custom=own)
        self.view = QuorumView(GEO.quorum, ["a", "b", "c"])
        self.state = State()
        self.is_failed = False
        self.wanted: list[int] = []

    def set_min_regions(self, min_regions: int) -> None:
        if self.wanted[-1:] != [min_regions]:
            self.wanted.append(min_regions)


class Writers:
    def __init__(self, *writers: Writer) -> None:
        self.open = list(writers)

    def writers(self) -> list[Writer]:
        return self.open


async def namespace_with(store: MemoryStore, *streams: str) -> Namespace:
    runtime = Runtime(Clock(), Random(1))
    await create_namespace(store, runtime, "n", GEO)
    namespace = Namespace(runtime, store, cast(LedgerProvider, None), "n")
    for stream in streams:
        await namespace.create_stream(stream)
    return namespace


async def namespace_of(count: int, store: MemoryStore) -> tuple[Namespace, list[Writer]]:
    names = [f"s{number}" for number in range(count)]
    return await namespace_with(store, *names), [Writer(name) for name in names]


async def until_wanted(writer: Writer, r: int) -> None:
    while writer.wanted[-1:] != [r]:  # noqa: ASYNC110 - a fake has no event
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def short_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rhumbline.regions.follow_policies.REREAD_MS", 5)


def with_r(r: int) -> StreamPolicy:
    return replace(GEO, quorum=replace(GEO.quorum, min_regions=r))


async def test_policy_of_the_stream_or_else_of_the_namespace_reaches_open_ledgers() -> None:
    store = MemoryStore()
    namespace = await namespace_with(store, "one", "two")
    one, two = Writer("one"), Writer("two")
    follower = PolicyFollower(store, cast(LedgerClient, Writers(one, two)))
    await until_wanted(one, 2)
    await namespace.set_stream_policy("one", with_r(1))
    await until_wanted(one, 1)
    assert two.wanted == [2]
    await namespace.set_policy(with_r(1))
    await until_wanted(two, 1)
    await namespace.set_stream_policy("one", with_r(2))
    await until_wanted(one, 2)
    await namespace.set_stream_policy("one", None)
    await until_wanted(one, 1)
    await follower.aclose()


async def test_r_is_limited_to_what_the_ledger_can_satisfy() -> None:
    store = MemoryStore()
    namespace = await namespace_with(store, "one")
    writer = Writer("one", {REGIONS_KEY: b"a"})
    follower = PolicyFollower(store, cast(LedgerClient, Writers(writer)))
    await until_wanted(writer, 1)
    await namespace.set_stream_policy("one", with_r(2))
    await asyncio.sleep(0.05)
    assert writer.wanted == [1]
    await follower.aclose()


async def test_deleted_stream_keeps_its_r_and_stops_no_other() -> None:
    store = MemoryStore()
    namespace = await namespace_with(store, "one")
    gone, one = Writer("never-created"), Writer("one")
    follower = PolicyFollower(store, cast(LedgerClient, Writers(gone, one)))
    await until_wanted(one, 2)
    await namespace.set_stream_policy("one", with_r(1))
    await until_wanted(one, 1)
    assert gone.wanted == []
    await follower.aclose()


async def test_damaged_record_stops_no_other_stream() -> None:
    store = MemoryStore()
    await namespace_with(store, "bad", "one")
    await store.put(StreamPaths("n", "bad").stream, b"damaged")
    bad, one = Writer("bad"), Writer("one")
    follower = PolicyFollower(store, cast(LedgerClient, Writers(bad, one)))
    await until_wanted(one, 2)
    assert bad.wanted == []
    await follower.aclose()


async def test_policies_of_many_streams_are_read_in_few_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one request for each policy, a process with 100,000 streams never finished a pass."""
    monkeypatch.setattr("rhumbline.regions.follow_policies.READS_PER_SECOND", 1_000_000)
    inner = MemoryStore()
    store = LossyStore(inner)
    _, writers = await namespace_of(120, inner)
    calls: list[str] = []
    store.on_call = calls.append
    follower = PolicyFollower(store, cast(LedgerClient, Writers(*writers)))
    for writer in writers:
        await until_wanted(writer, 2)
    assert calls == ["get", "get_all", "get_all", "get_all"]  # the namespace, and 50 streams each
    await follower.aclose()


async def test_change_is_not_forgotten_if_the_store_is_unavailable_then() -> None:
    inner = MemoryStore()
    store = LossyStore(inner)
    namespace = await namespace_with(inner, "one")
    one = Writer("one")
    follower = PolicyFollower(store, cast(LedgerClient, Writers(one)))
    await until_wanted(one, 2)
    failures = 0

    def refuse(name: str) -> None:
        nonlocal failures
        if name == "get_all" and failures < 2:
            failures += 1
            raise MetadataUnavailableError("injected by the test")

    store.on_call = refuse
    await namespace.set_stream_policy("one", with_r(1))
    await until_wanted(one, 1)
    assert failures == 2
    await follower.aclose()


async def test_other_tasks_run_while_a_thousand_writers_get_a_new_r(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rhumbline.regions.follow_policies.READS_PER_SECOND", 1_000_000)
    store = MemoryStore()
    namespace, writers = await namespace_of(1_000, store)
    follower = PolicyFollower(store, cast(LedgerClient, Writers(*writers)))
    await until_wanted(writers[-1], 2)
    await namespace.set_policy(with_r(1))
    changed = [0]
    while changed[-1] < len(writers):
        await asyncio.sleep(0)
        changed.append(sum(writer.wanted[-1] == 1 for writer in writers))
    await follower.aclose()
    assert max(after - before for before, after in pairwise(changed)) <= 200
