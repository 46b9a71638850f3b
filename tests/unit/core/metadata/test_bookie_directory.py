"""The bookie directory, in a store that loses replies and sessions."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.core.metadata import bookie_directory as module
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.metadata.cluster_layout import initialise_cluster
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import (
    BookieUnavailableError,
    CorruptionError,
    IndeterminateError,
    InvalidArgumentError,
    MetadataError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    SessionLostError,
    WrongClusterError,
)
from rhumbline.core.protocol.placement import BookieInfo
from rhumbline.core.runtime.metadata_store import Value, Version
from rhumbline.core.wire.cookie import Cookie
from rhumbline.core.wire.registration import HOLDER, Registration
from rhumbline.tests.support.fakes.lossy_store import (
    LOST_REPLY,
    LOST_REQUEST,
    UNAVAILABLE,
    LossyStore,
)

ONE = BookieId("one@00000001")
TWO = BookieId("two@00000002")
EU, US = Region("eu"), Region("us")


def registration(bookie: BookieId = ONE, host: str = "h1", **properties: str) -> Registration:
    return Registration(bookie, host, 3181, properties)


class World:
    """The directories of a bookie's process, whose store may lose replies, and of an observer."""

    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.inner = MemoryStore(self.tree)
        self.store = LossyStore(self.inner)
        self.mine = BookieDirectory(self.store)
        self.other = MemoryStore(self.tree)
        self.observer = BookieDirectory(self.other)


def run(work: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        world = World()
        await asyncio.wait_for(work(world), 20)
        world.mine.close()
        world.observer.close()

    asyncio.run(main())


@pytest.fixture(autouse=True)
def _look_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_INTERVAL_MS", 1)


# --- registration -------------------------------------------------------------------------------


def test_a_registration_ends_with_its_session() -> None:
    async def work(world: World) -> None:
        session = await world.store.session(10_000)
        await world.mine.register(session, registration())
        assert await world.observer.writable() == [ONE]
        assert await world.observer.registration(ONE) == registration()
        await session.close()
        assert await world.observer.writable() == []
        await asyncio.sleep(0)  # the watch fires
        with pytest.raises(BookieUnavailableError):
            await world.observer.registration(ONE)

    run(work)


def test_an_address_is_returned_even_if_the_directory_changed_during_the_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FRESH_WAIT_MS", 10)

    async def work(world: World) -> None:
        session = await world.other.session(10_000)
        await world.observer.register(session, registration())
        world.store.delay_s = lambda: 0.01  # the new watch fires during the read
        asyncio.get_running_loop().call_later(0.005, world.mine._on_change)
        await world.mine.registration(ONE)
        world.store.delay_s = lambda: 60.0
        assert await world.mine.registration(ONE) == registration()
        await session.close()

    run(work)


@pytest.mark.parametrize("is_silent", [False, True], ids=["refused", "silent"])
def test_a_known_address_is_used_while_the_store_is_unreachable(
    is_silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients reconnect without the store; once it is reachable, to the new address."""
    monkeypatch.setattr(module, "FRESH_WAIT_MS", 10)

    async def work(world: World) -> None:
        session = await world.other.session(10_000)
        await world.observer.register(session, registration())
        assert (await world.mine.registration(ONE)).host == "h1"
        await world.observer.refresh(registration(host="h2"))
        await asyncio.sleep(0)  # the watch fires

        def refuse(_: str) -> None:
            raise MetadataUnavailableError("the store is away")

        if is_silent:
            world.store.delay_s = lambda: 60.0
        else:
            world.store.on_call = refuse
        assert (await world.mine.registration(ONE)).host == "h1"
        reads = world.store.reads
        assert (await world.mine.registration(ONE)).host == "h1"
        assert world.store.reads == reads, "once is enough"
        with pytest.raises((MetadataUnavailableError, TimeoutError)):
            async with asyncio.timeout(0.05):
                await world.mine.registration(TWO)  # unknown bookie
        world.store.delay_s, world.store.on_call = lambda: 0.0, lambda _: None
        world.mine._on_change()  # as the watch does when the store is reachable again
        assert (await world.mine.registration(ONE)).host == "h2"
        await session.close()
        await asyncio.sleep(0)
        for _ in range(2):
            with pytest.raises(BookieUnavailableError):
                await world.mine.registration(ONE)

    run(work)


@pytest.mark.parametrize(
    "outcomes",
    [
        [LOST_REPLY],
        [LOST_REQUEST],
        [UNAVAILABLE],
        [LOST_REPLY, LOST_REPLY],
        [LOST_REPLY, UNAVAILABLE, LOST_REQUEST],
    ],
)
def test_a_registration_with_lost_replies_belongs_to_its_session(outcomes: list[str]) -> None:
    async def work(world: World) -> None:
        session = await world.store.session(10_000)
        world.store.outcomes = list(outcomes)
        await world.mine.register(session, registration())
        assert await world.observer.writable() == [ONE]
        await session.close()
        assert await world.observer.writable() == []

    run(work)


def test_a_registration_of_an_earlier_process_is_never_removed() -> None:
    async def work(world: World) -> None:
        earlier = await world.other.session(10_000)
        await world.observer.register(earlier, registration())
        session = await world.store.session(10_000)
        again = asyncio.ensure_future(world.mine.register(session, registration()))
        for _ in range(5):
            await asyncio.sleep(0.001)
        assert not again.done()
        assert world.store.writes == 0
        await earlier.close()
        await again
        assert await world.observer.writable() == [ONE]
        await session.close()
        assert await world.observer.writable() == []

    run(work)


def test_only_what_the_same_holder_registered_is_reclaimed() -> None:
    async def work(world: World) -> None:
        held, foreign = (
            replace(registration(), properties={HOLDER: name}) for name in ("boot/1:2", "boot/3:4")
        )
        earlier = await world.other.session(10_000)
        await world.observer.register(earlier, held, read_only=True)
        await world.mine.reclaim(foreign)
        await world.mine.reclaim(registration())
        assert await world.observer.read_only() == [ONE]
        await world.mine.reclaim(held)
        assert await world.observer.read_only() == []
        session = await world.store.session(10_000)
        await world.mine.register(session, held, wait_ms=0)
        await earlier.close()
        assert await world.observer.writable() == [ONE]
        await world.mine.reclaim(held)
        assert await world.observer.writable() == []

    run(work)


def test_a_registration_that_stays_raises() -> None:
    async def work(world: World) -> None:
        earlier = await world.other.session(10_000)
        await world.observer.register(earlier, registration(host="other"))
        session = await world.store.session(10_000)
        with pytest.raises(NodeExistsError):
            await world.mine.register(session, registration(), wait_ms=3)
        assert (await world.observer.registration(ONE)).host == "other"

    run(work)


def test_an_outcome_that_stays_unknown_raises_indeterminate_error() -> None:
    async def work(world: World) -> None:
        session = await world.store.session(10_000)
        world.store.outcomes = [LOST_REQUEST] * 50
        with pytest.raises(IndeterminateError):
            await world.mine.register(session, registration(), wait_ms=0)

    run(work)


def test_a_lost_session_raises_at_once() -> None:
    async def work(world: World) -> None:
        session = await world.inner.session(10_000)
        session.expire()
        with pytest.raises(SessionLostError):
            await BookieDirectory(world.inner).register(session, registration())

    run(work)


def test_a_bookie_stays_registered_while_it_becomes_read_only() -> None:
    async def work(world: World) -> None:
        session = await world.store.session(10_000)
        await world.mine.register(session, registration())
        known: list[bool] = []

        def look(_: str) -> None:
            nodes = (f"/ledgers/available/{ONE}", f"/ledgers/available/readonly/{ONE}")
            known.append(any(world.tree.node(path) for path in nodes))

        world.store.on_call = look
        for read_only in (True, True, False, False, True):
            await world.mine.set_read_only(session, registration(), read_only)
            writable, others = await world.observer.writable(), await world.observer.read_only()
            assert (writable, others) == (([], [ONE]) if read_only else ([ONE], []))
        assert all(known[:4])

    run(work)


class LateDeletes(LossyStore):
    """The first deletion of a registration loses its reply and is carried out by ``arrive``."""

    arrive: Callable[[], Coroutine[Any, Any, None]] | None = None

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        if self.arrive is not None or "readonly" in path:
            return await super().delete(path, expect=expect)

        async def arrive() -> None:
            with suppress(MetadataError):
                await LossyStore.delete(self, path, expect=expect)

        self.arrive = arrive
        raise IndeterminateError("no answer")


def test_a_delayed_deletion_removes_no_later_registration() -> None:
    async def work(world: World) -> None:
        store = LateDeletes(world.inner)
        mine = BookieDirectory(store)
        session = await store.session(10_000)
        await mine.register(session, registration())
        await mine.set_read_only(session, registration(), True)
        await mine.set_read_only(session, registration(), False)
        assert store.arrive is not None
        await store.arrive()
        assert await world.observer.writable() == [ONE]
        mine.close()

    run(work)


def test_unregistering_is_safe_to_repeat() -> None:
    async def work(world: World) -> None:
        session = await world.store.session(10_000)
        await world.mine.register(session, registration(), read_only=True)
        assert await world.observer.read_only() == [ONE]
        world.store.outcomes = [LOST_REPLY, LOST_REPLY, LOST_REQUEST]
        await world.mine.unregister(ONE)
        await world.mine.unregister(ONE)
        assert await world.observer.read_only() == []

    run(work)


def test_refreshed_properties_are_seen() -> None:
    async def work(world: World) -> None:
        session = await world.store.session(10_000)
        with pytest.raises(NoNodeError):
            await world.mine.refresh(registration())
        for read_only in (False, True):
            await world.mine.unregister(ONE)
            await world.mine.register(session, registration(), read_only=read_only)
            await asyncio.sleep(0)
            assert (await world.observer.registration(ONE)).free_bytes == 0
            await world.mine.refresh(registration(free_bytes="77"))
            await asyncio.sleep(0)
            assert (await world.observer.registration(ONE)).free_bytes == 77
        await session.close()
        assert await world.observer.read_only() == []

    run(work)


def test_the_directory_opens_sessions_and_knows_its_cluster() -> None:
    async def work(world: World) -> None:
        with pytest.raises(WrongClusterError):
            await world.mine.instance_id()
        assert await initialise_cluster(world.inner, Random(1)) == await world.mine.instance_id()
        session = await world.mine.session(10_000)
        await world.mine.register(session, registration())
        assert await world.observer.writable() == [ONE]

    run(work)


# --- what others see ----------------------------------------------------------------------------


def test_a_registration_is_cached_until_something_changes() -> None:
    async def work(world: World) -> None:
        session = await world.other.session(10_000)
        await world.observer.register(session, registration())
        assert (await world.mine.registration(ONE)).host == "h1"
        reads = world.store.reads
        assert (await world.mine.registration(ONE)).host == "h1"
        assert world.store.reads == reads
        await world.observer.refresh(registration(host="h2"))
        await asyncio.sleep(0)
        assert (await world.mine.registration(ONE)).host == "h2"

    run(work)


def test_a_read_older_than_a_change_is_not_cached() -> None:
    async def work(world: World) -> None:
        session = await world.other.session(10_000)
        await world.observer.register(session, registration())
        was_read, gate = asyncio.Event(), asyncio.Event()

        class Slow(LossyStore):
            async def get_all(
                self, paths: Sequence[str], *, stale_ok: bool = False
            ) -> list[Value | None]:
                values = await super().get_all(paths, stale_ok=stale_ok)
                was_read.set()
                await gate.wait()
                return values

        directory = BookieDirectory(Slow(world.inner))
        early = asyncio.ensure_future(directory.registration(ONE))
        await was_read.wait()
        await world.observer.refresh(registration(host="h2"))
        await asyncio.sleep(0)
        gate.set()
        assert (await early).host == "h1"
        assert (await directory.registration(ONE)).host == "h2"
        directory.close()

    run(work)


def test_names_that_are_not_bookie_ids_are_skipped() -> None:
    async def work(world: World) -> None:
        for name in (TWO, "readonly", "no bookie", ONE):
            await world.inner.create(f"/ledgers/available/{name}")
        await world.inner.create("/ledgers/available/readonly/127.0.0.1:3181")
        assert await world.observer.writable() == [ONE, TWO]
        assert await world.observer.read_only() == ["127.0.0.1:3181"]
        apache = await world.observer.registration(BookieId("127.0.0.1:3181"))
        assert apache.port == 3181

    run(work)


def test_without_a_cluster_no_bookie_is_up() -> None:
    async def work(world: World) -> None:
        assert await world.observer.writable() == []
        assert await world.observer.all_known() == []
        assert await world.observer.snapshot() == []

    run(work)


def test_a_watch_fires_when_bookies_come_and_go() -> None:
    async def work(world: World) -> None:
        changed = asyncio.Event()
        watch = world.observer.watch(changed.set)
        session = await world.inner.session(10_000)
        changes: list[Callable[[], Coroutine[Any, Any, None]]] = [
            lambda: world.mine.register(session, registration()),
            lambda: world.mine.set_read_only(session, registration(), True),
            session.close,
        ]
        for change in changes:
            changed.clear()
            await change()
            await asyncio.wait_for(changed.wait(), 5)
        watch.close()

    run(work)


def test_a_snapshot_has_regions_racks_and_free_space() -> None:
    async def work(world: World) -> None:
        session = await world.other.session(10_000)
        apache = BookieId("127.0.0.1:3181")
        await world.observer.register(session, registration(TWO, rack="r2", free_bytes="5"))
        await world.observer.register(session, registration(ONE, region="us"))
        await world.observer.register(session, registration(apache))
        await world.inner.create("/ledgers/available/bad@00000003", b"no registration")
        await world.observer.record_region(
            ONE, EU
        )  # this one counts, not the one in the registration
        await world.observer.record_region(TWO, US)
        assert await world.mine.snapshot() == [
            BookieInfo(apache, host="h1"),
            BookieInfo(ONE, EU, host="h1"),
            BookieInfo(TWO, US, "r2", 5, host="h1"),
        ]
        with pytest.raises(CorruptionError):
            await world.mine.registration(BookieId("bad@00000003"))

    run(work)


# --- regions and cookies ------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [LOST_REPLY, LOST_REQUEST])
def test_a_region_is_recorded_once(outcome: str) -> None:
    async def work(world: World) -> None:
        assert await world.mine.region_of(ONE) is None
        world.store.outcomes = [outcome]
        await world.mine.record_region(ONE, EU)
        await world.mine.record_region(ONE, EU)
        with pytest.raises(WrongClusterError, match="is recorded in region eu, not us"):
            await world.mine.record_region(ONE, US)
        assert await world.mine.region_of(ONE) == EU
        reads = world.store.reads
        assert await world.mine.region_of(ONE) == EU
        assert world.store.reads == reads

    run(work)


def test_a_malformed_region_is_rejected() -> None:
    async def work(world: World) -> None:
        with pytest.raises(InvalidArgumentError):
            await world.mine.record_region(ONE, Region("No Region"))
        await world.inner.create(f"/ledgers/rhumbline/regions/{ONE}", b"\xff")
        with pytest.raises(CorruptionError):
            await world.mine.region_of(ONE)

    run(work)


def test_cookies_list_the_formatted_bookies() -> None:
    async def work(world: World) -> None:
        cookie = Cookie(ONE, "/j", ("/l",), "instance")
        world.store.outcomes = [LOST_REPLY]
        await world.mine.write_cookie(cookie)
        await world.mine.write_cookie(cookie)
        assert await world.observer.read_cookie(ONE) == cookie
        assert await world.observer.read_cookie(TWO) is None
        assert await world.observer.all_known() == [ONE]
        with pytest.raises(WrongClusterError):
            await world.mine.write_cookie(Cookie(ONE, "/j", ("/other",), "instance"))
        await world.mine.delete_cookie(ONE)
        await world.mine.delete_cookie(ONE)
        assert await world.observer.all_known() == []

    run(work)
