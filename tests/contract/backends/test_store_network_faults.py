"""Connections that are cut in the middle, slow, or swallow what is sent: through Toxiproxy.

What is asserted is safety: an acknowledged write is there, a refused one is not, an uncertain one
says so; and that no call waits beyond its deadline for ever. Times are printed, not judged.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from uuid import uuid4

import pytest

from rhumbline.backends.conformance.assertions import ChangeSignal, eventually
from rhumbline.core.metadata import idempotent_writes
from rhumbline.core.protocol.errors import IndeterminateError, MetadataError
from rhumbline.core.protocol.errors import MetadataUnavailableError as Unavailable
from rhumbline.core.runtime.metadata_store import Create, MetadataStore, Operation, Put
from rhumbline.tests.support.servers import metadata_servers
from rhumbline.tests.support.servers.metadata_servers import Proxy
from rhumbline.tests.support.servers.server_kinds import KINDS, TIMEOUT_MS, ServerKind

pytestmark = [pytest.mark.parametrize("kind", KINDS), pytest.mark.needs_server("toxiproxy")]

HANGS_AFTER_S = TIMEOUT_MS / 1000 * 3 + 5
"""A deadline that was missed by this much on a busy machine would have been missed for ever."""

BRIEF_S = 0.25
CUTS = [
    *(("upstream", count) for count in (0, 1, 20, 60, 120, 250, 500, 1_000)),
    *(("downstream", count) for count in (0, 1, 10, 40, 100)),
]


@pytest.fixture
def proxy(kind: ServerKind) -> Iterator[Proxy]:
    way = metadata_servers.toxiproxy().proxy(kind.shared().address)
    yield way
    way.remove()


@asynccontextmanager
async def both(
    kind: ServerKind, proxy: Proxy
) -> AsyncIterator[tuple[MetadataStore, MetadataStore]]:
    """(a handle through the proxy, one that goes straight), with a node /n."""
    place = f"faults-{uuid4().hex[:8]}"
    async with kind.opened(kind.shared().address, place) as straight:
        await straight.create("/n", b"before")
        async with kind.opened(proxy.address, place) as store:
            await store.get("/n")
            try:
                yield store, straight
            finally:
                proxy.heal()


async def outcome(store: MetadataStore, data: bytes) -> type[MetadataError] | None:
    """What a write by this handle says; None: it was carried out."""
    async with asyncio.timeout(HANGS_AFTER_S):
        try:
            await store.put("/n", data)
        except (Unavailable, IndeterminateError) as error:
            return type(error)
    return None


async def check(said: type[MetadataError] | None, straight: MetadataStore, data: bytes) -> None:
    """Compares what was said with what is there. Only "unknown" may be either."""
    await asyncio.sleep(0.02)  # what was sent and not heard of may still be on its way
    is_there = (await straight.get("/n")).data == data
    if said is not IndeterminateError:
        assert is_there == (said is None), f"said {said}, is there: {is_there}"


@contextmanager
def cut_briefly(proxy: Proxy, count: int, stream: str) -> Iterator[None]:
    """Cuts each connection when it has carried so much, until all is well again soon after."""
    proxy.cut_after(count, stream)
    healing = asyncio.get_running_loop().call_later(BRIEF_S, proxy.heal)
    yield
    healing.cancel()
    proxy.heal()


async def heals(store: MetadataStore) -> None:
    """The same handle works again."""

    async def works() -> bool:
        return await outcome(store, b"healed") is None

    await eventually(works, "the handle works again")


def test_a_connection_cut_within_a_write(kind: ServerKind, proxy: Proxy) -> None:
    async def run() -> None:
        said: dict[str, list[str]] = {}
        async with both(kind, proxy) as (store, straight):
            for stream, count in CUTS:
                await heals(store)
                data = uuid4().hex.encode()
                with cut_briefly(proxy, count, stream):
                    answer = await outcome(store, data)
                await check(answer, straight, data)
                said.setdefault(answer.__name__ if answer else "ok", []).append(f"{stream}+{count}")
            await heals(store)
        for name, cuts in said.items():
            print(f"{kind.scheme}: {name}: {', '.join(cuts)}")

    asyncio.run(run())


def test_a_transaction_whose_reply_is_cut_off_is_whole_or_nothing(
    kind: ServerKind, proxy: Proxy
) -> None:
    async def run() -> None:
        async with both(kind, proxy) as (store, straight):
            for number in range(4):
                await heals(store)
                both_or_none: list[Operation] = [
                    Create(f"/made-{number}"),
                    Put("/n", b"%d" % number),
                ]
                with (
                    cut_briefly(proxy, number * 8, "downstream"),
                    suppress(Unavailable, IndeterminateError),
                ):
                    await store.txn(both_or_none)
                await asyncio.sleep(0.02)
                made = f"made-{number}" in await straight.children("/")
                assert made == ((await straight.get("/n")).data == b"%d" % number)

    asyncio.run(run())


def test_an_unknown_outcome_is_found_by_reading(kind: ServerKind, proxy: Proxy) -> None:
    """The helper that callers use: the write has happened exactly once, and it knows."""

    async def run() -> None:
        async with both(kind, proxy) as (store, straight):
            for count in (0, 10, 40):
                await heals(store)
                version = (await store.get("/n")).version
                data = uuid4().hex.encode()
                with cut_briefly(proxy, count, "downstream"):
                    written = await idempotent_writes.put(store, "/n", data, version)
                found = await straight.get("/n")
                assert (found.data, found.version) == (data, written)

    asyncio.run(run())


def test_refused_connections_say_that_nothing_was_done(kind: ServerKind, proxy: Proxy) -> None:
    async def run() -> None:
        async with both(kind, proxy) as (store, straight):
            proxy.cut()
            await asyncio.sleep(0.2)  # until the handle has noticed
            assert await outcome(store, b"refused") is Unavailable
            with pytest.raises(Unavailable):
                await store.get("/n")
            await check(Unavailable, straight, b"refused")
            proxy.heal()
            await heals(store)

    asyncio.run(run())


@pytest.mark.parametrize("streams", [("upstream",), ("downstream",)], ids=lambda names: names[0])
def test_swallowed_bytes_end_at_the_deadline(
    kind: ServerKind, proxy: Proxy, streams: tuple[str, ...]
) -> None:
    async def run() -> None:
        async with both(kind, proxy) as (store, straight):
            proxy.swallow(*streams)
            began = time.monotonic()
            answer = await outcome(store, b"swallowed")
            spent_s = time.monotonic() - began
            assert answer is not None
            await check(answer, straight, b"swallowed")
            with pytest.raises(Unavailable):
                async with asyncio.timeout(HANGS_AFTER_S):
                    await store.get("/n")
            print(f"{kind.scheme}: {streams[0]} swallowed: {answer.__name__} in {spent_s:.2f} s")
            proxy.heal()
            await heals(store)

    asyncio.run(run())


def test_a_slow_way_is_only_slow(kind: ServerKind, proxy: Proxy) -> None:
    async def run() -> None:
        async with both(kind, proxy) as (store, straight):
            proxy.latency(60)
            began = time.monotonic()
            await store.put("/n", b"slow")
            assert (await store.get("/n")).data == b"slow"
            print(f"{kind.scheme}: 120 ms round trip: {time.monotonic() - began:.2f} s for 2 calls")
            await check(None, straight, b"slow")

    asyncio.run(run())


def test_watches_fire_after_a_cut(kind: ServerKind, proxy: Proxy) -> None:
    async def run() -> None:
        async with both(kind, proxy) as (store, straight):
            changes, family = ChangeSignal(), ChangeSignal()
            store.watch("/n", changes.notify)
            store.watch("/", family.notify, prefix=True)
            await changes.drain()
            await family.drain()
            proxy.cut()
            await straight.put("/n", b"while it was away")
            proxy.heal()
            await changes.wait_notified("a change that was missed")
            await family.wait_notified("a change below that was missed")
            await changes.drain()
            await straight.put("/n", b"after")
            await changes.wait_notified("a change after the cut")

    asyncio.run(run())


def test_a_session_whose_way_is_cut_expires(kind: ServerKind, proxy: Proxy) -> None:
    """The servers end it, somebody else claims, and the old owner hears of it when it is back."""

    async def run() -> None:
        async with both(kind, proxy) as (store, straight):
            session = await store.session(kind.ttl_ms)
            lost = asyncio.Event()
            session.on_lost(lost.set)
            await store.create("/claim", b"first", ephemeral=session)
            proxy.cut()
            began = time.monotonic()

            async def is_free() -> bool:
                return "claim" not in await straight.children("/")

            await eventually(is_free, "the claim goes with its session")
            print(f"{kind.scheme}: a claim of {kind.ttl_ms} ms: {time.monotonic() - began:.2f} s")
            await straight.create("/claim", b"second")
            proxy.heal()
            async with asyncio.timeout(15):
                await lost.wait()
            assert session.is_lost
            assert (await store.get("/claim")).data == b"second"

    asyncio.run(run())


def test_a_session_survives_a_short_cut(kind: ServerKind, proxy: Proxy) -> None:
    async def run() -> None:
        async with both(kind, proxy) as (store, straight):
            session = await store.session(8_000)
            await store.create("/claim", b"mine", ephemeral=session)
            proxy.cut()
            await asyncio.sleep(0.5)
            proxy.heal()
            await heals(store)
            assert not session.is_lost
            assert (await straight.get("/claim")).data == b"mine"
            await session.close()
            assert "claim" not in await straight.children("/")

    asyncio.run(run())
