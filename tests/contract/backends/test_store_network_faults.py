"""Tests of connections through Toxiproxy that are cut within a message, slow, or drop bytes.

They require that acknowledged writes have taken effect, that refused writes have not, that unknown
outcomes raise IndeterminateError, and that no call hangs. Times are printed, not asserted.
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

HANGS_AFTER_S = TIMEOUT_MS / 1000 * 3 + 60
"""A call that misses its deadline by this much, even on a busy machine, is assumed to hang."""

BRIEF_S = 0.25
CUTS = [
    *(("upstream", count) for count in (0, 1, 20, 60, 120, 250, 500, 1_000)),
    *(("downstream", count) for count in (0, 1, 10, 40, 100)),
]


@pytest.fixture
def proxy(kind: ServerKind) -> Iterator[Proxy]:
    made = metadata_servers.toxiproxy().proxy(kind.shared().address)
    yield made
    made.remove()


@asynccontextmanager
async def open_both(
    kind: ServerKind, proxy: Proxy
) -> AsyncIterator[tuple[MetadataStore, MetadataStore]]:
    """Return (a handle through the proxy, a direct handle) to a store with a node /n."""
    chroot = f"faults-{uuid4().hex[:8]}"
    async with kind.opened(kind.shared().address, chroot) as direct:
        await direct.create("/n", b"before")
        async with kind.opened(proxy.address, chroot) as store:
            await store.get("/n")
            try:
                yield store, direct
            finally:
                proxy.heal()


async def outcome(store: MetadataStore, data: bytes) -> type[MetadataError] | None:
    """Write by this handle; return the class of the error, or None if the write succeeded."""
    async with asyncio.timeout(HANGS_AFTER_S):
        try:
            await store.put("/n", data)
        except (Unavailable, IndeterminateError) as error:
            return type(error)
    return None


async def check(error: type[MetadataError] | None, direct: MetadataStore, data: bytes) -> None:
    """Check that the outcome of a write agrees with the node, unless the outcome is unknown."""
    await asyncio.sleep(0.02)  # a request without a response may still be in flight
    is_written = (await direct.get("/n")).data == data
    if error is not IndeterminateError:
        assert is_written == (error is None), f"outcome {error}, but written: {is_written}"


@contextmanager
def cut_briefly(proxy: Proxy, count: int, stream: str) -> Iterator[None]:
    """Cut each connection after `count` bytes of `stream`; the proxy heals after `BRIEF_S`."""
    proxy.cut_after(count, stream)
    healing = asyncio.get_running_loop().call_later(BRIEF_S, proxy.heal)
    yield
    healing.cancel()
    proxy.heal()


async def heals(store: MetadataStore) -> None:
    """Wait until the handle works again."""

    async def works() -> bool:
        return await outcome(store, b"healed") is None

    await eventually(works, "the handle works again")


async def test_a_write_over_a_connection_that_is_cut_reports_its_true_outcome(
    kind: ServerKind, proxy: Proxy
) -> None:
    outcomes: dict[str, list[str]] = {}
    async with open_both(kind, proxy) as (store, direct):
        for stream, count in CUTS:
            await heals(store)
            data = uuid4().hex.encode()
            with cut_briefly(proxy, count, stream):
                answer = await outcome(store, data)
            await check(answer, direct, data)
            outcomes.setdefault(answer.__name__ if answer else "ok", []).append(f"{stream}+{count}")
        await heals(store)
    for name, cuts in outcomes.items():
        print(f"{kind.scheme}: {name}: {', '.join(cuts)}")


async def test_a_transaction_whose_response_is_lost_is_applied_completely_or_not_at_all(
    kind: ServerKind, proxy: Proxy
) -> None:
    async with open_both(kind, proxy) as (store, direct):
        for number in range(4):
            await heals(store)
            operations: list[Operation] = [
                Create(f"/created-{number}"),
                Put("/n", b"%d" % number),
            ]
            with (
                cut_briefly(proxy, number * 8, "downstream"),
                suppress(Unavailable, IndeterminateError),
            ):
                await store.txn(operations)
            await asyncio.sleep(0.02)
            is_created = f"created-{number}" in await direct.children("/")
            assert is_created == ((await direct.get("/n")).data == b"%d" % number)


async def test_an_idempotent_write_resolves_an_unknown_outcome(
    kind: ServerKind, proxy: Proxy
) -> None:
    """After ``idempotent_writes.put`` the write has taken effect exactly once."""
    async with open_both(kind, proxy) as (store, direct):
        for count in (0, 10, 40):
            await heals(store)
            version = (await store.get("/n")).version
            data = uuid4().hex.encode()
            with cut_briefly(proxy, count, "downstream"):
                written = await idempotent_writes.put(store, "/n", data, version)
            found = await direct.get("/n")
            assert (found.data, found.version) == (data, written)


async def test_writes_without_a_connection_have_no_effect_and_raise_unavailable(
    kind: ServerKind, proxy: Proxy
) -> None:
    async with open_both(kind, proxy) as (store, direct):
        proxy.cut()
        await asyncio.sleep(0.2)  # the handle needs time to notice
        assert await outcome(store, b"refused") is Unavailable
        with pytest.raises(Unavailable):
            await store.get("/n")
        await check(Unavailable, direct, b"refused")
        proxy.heal()
        await heals(store)


@pytest.mark.parametrize("streams", [("upstream",), ("downstream",)], ids=lambda names: names[0])
async def test_calls_whose_bytes_are_dropped_end_at_their_deadline(
    kind: ServerKind, proxy: Proxy, streams: tuple[str, ...]
) -> None:
    async with open_both(kind, proxy) as (store, direct):
        proxy.swallow(*streams)
        began = time.monotonic()
        answer = await outcome(store, b"swallowed")
        spent_s = time.monotonic() - began
        assert answer is not None
        await check(answer, direct, b"swallowed")
        with pytest.raises(Unavailable):
            async with asyncio.timeout(HANGS_AFTER_S):
                await store.get("/n")
        print(f"{kind.scheme}: {streams[0]} dropped: {answer.__name__} in {spent_s:.2f} s")
        proxy.heal()
        await heals(store)


async def test_calls_over_a_slow_connection_succeed(kind: ServerKind, proxy: Proxy) -> None:
    async with open_both(kind, proxy) as (store, direct):
        proxy.latency(60)
        began = time.monotonic()
        await store.put("/n", b"slow")
        assert (await store.get("/n")).data == b"slow"
        print(f"{kind.scheme}: 120 ms round trip: {time.monotonic() - began:.2f} s for 2 calls")
        await check(None, direct, b"slow")


async def test_watches_fire_after_a_cut(kind: ServerKind, proxy: Proxy) -> None:
    async with open_both(kind, proxy) as (store, direct):
        changes, family = ChangeSignal(), ChangeSignal()
        store.watch("/n", changes.notify)
        store.watch("/", family.notify, prefix=True)
        await changes.drain()
        await family.drain()
        proxy.cut()
        await direct.put("/n", b"during the cut")
        proxy.heal()
        await changes.wait_notified("a change during the cut")
        await family.wait_notified("a change below the root during the cut")
        await changes.drain()
        await direct.put("/n", b"after")
        await changes.wait_notified("a change after the cut")


async def test_a_session_without_a_connection_expires(kind: ServerKind, proxy: Proxy) -> None:
    """Its path can be claimed anew, and its owner learns of the loss after the reconnect."""
    async with open_both(kind, proxy) as (store, direct):
        session = await store.session(kind.ttl_ms)
        lost = asyncio.Event()
        session.on_lost(lost.set)
        await store.create("/claim", b"first", ephemeral=session)
        proxy.cut()
        began = time.monotonic()

        async def is_free() -> bool:
            return "claim" not in await direct.children("/")

        await eventually(is_free, "the ephemeral node is removed with its session")
        print(f"{kind.scheme}: a claim of {kind.ttl_ms} ms: {time.monotonic() - began:.2f} s")
        await direct.create("/claim", b"second")
        proxy.heal()
        async with asyncio.timeout(60):
            await lost.wait()
        assert session.is_lost
        assert (await store.get("/claim")).data == b"second"


async def test_a_session_survives_a_short_cut(kind: ServerKind, proxy: Proxy) -> None:
    async with open_both(kind, proxy) as (store, direct):
        session = await store.session(8_000)
        await store.create("/claim", b"mine", ephemeral=session)
        proxy.cut()
        await asyncio.sleep(0.5)
        proxy.heal()
        await heals(store)
        assert not session.is_lost
        assert (await direct.get("/claim")).data == b"mine"
        await session.close()
        assert "claim" not in await direct.children("/")
