"""Tests of servers that crash, freeze, restart, lose their leader or lose their history."""

import asyncio
import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial

import pytest

from rhumbline.backends.conformance.assertions import ChangeSignal, eventually
from rhumbline.core.protocol.errors import (
    BadVersionError,
    ClosedError,
    IndeterminateError,
    MetadataUnavailableError,
    SessionLostError,
)
from rhumbline.tests.support.servers import metadata_servers
from rhumbline.tests.support.servers.adders import KEYS, Adders
from rhumbline.tests.support.servers.lost_data import is_without_data
from rhumbline.tests.support.servers.metadata_servers import Etcd, Server
from rhumbline.tests.support.servers.server_kinds import KINDS, ServerKind


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> ServerKind:
    assert isinstance(request.param, ServerKind)
    return request.param


@pytest.fixture(scope="module")
def server(kind: ServerKind) -> Iterator[Server]:
    """One server for the tests of this file, which may disturb it but leave it running."""
    made = metadata_servers.started(kind.make)
    made.start()
    yield made
    made.remove()


async def test_acknowledged_writes_survive_a_crash_of_the_server(
    kind: ServerKind, server: Server
) -> None:
    """Values, versions, watches and sequence numbers survive a kill and restart under writes."""
    async with kind.opened(server.address, "crash") as store:
        adders = Adders(store)
        await adders.prepare()
        path, version = await store.create("/still", b"here")
        first, _ = await store.create("/queue/n-", sequential=True)
        changes = ChangeSignal()
        store.watch("/still", changes.notify)
        await changes.drain()
        async with asyncio.TaskGroup() as group:
            for key in range(KEYS):
                group.create_task(adders.run(key))
            await asyncio.sleep(0.3)
            before = changes.count
            server.kill()
            server.launch()  # not in another thread: the server would end with that thread
            await asyncio.to_thread(server.wait_ready)
            count = sum(adders.acknowledged)

            async def goes_on() -> bool:
                return sum(adders.acknowledged) > count

            await eventually(goes_on, "writes after the restart")
            adders.is_stopped = True
        await adders.check(store)
        assert await store.get(path) == (b"here", version)
        second, _ = await store.create("/queue/n-", sequential=True)
        assert second > first
        await eventually(
            lambda: _has_fired_since(changes, before), "the watch fires after the reconnect"
        )
        print(
            f"{kind.scheme}: restart under writes: {sum(adders.acknowledged)} done, "
            f"{sum(adders.unsure)} unknown, longest pause {adders.longest_pause_s:.2f} s"
        )


async def test_calls_to_a_frozen_server_end_at_their_deadline(
    kind: ServerKind, server: Server
) -> None:
    async with kind.opened(server.address, "frozen") as store:
        await store.create("/n", b"before")
        server.pause()
        try:
            began = time.monotonic()
            async with asyncio.timeout(60):
                with pytest.raises((MetadataUnavailableError, IndeterminateError)):
                    await store.put("/n", b"meanwhile")
                with pytest.raises(MetadataUnavailableError):
                    await store.get("/n")
            spent_s = time.monotonic() - began
        finally:
            server.resume()

        async def works() -> bool:
            try:
                await store.put("/n", b"after")
            except (MetadataUnavailableError, IndeterminateError):
                return False
            return True

        await eventually(works, "the handle works again")
        assert (await store.get("/n")).data == b"after"
        print(f"{kind.scheme}: SIGSTOP: a write and a read gave up in {spent_s:.2f} s")


async def test_a_server_that_lost_its_data_is_a_new_store(kind: ServerKind, server: Server) -> None:
    """No earlier node, version or session is valid any more.

    A handle that was open continues with the current content.
    """
    async with kind.opened(server.address, "erased") as store:
        _, old = await store.create("/n", b"old")
        session = await store.session(8_000)
        lost = asyncio.Event()
        session.on_lost(lost.set)
        await store.create("/claim", b"mine", ephemeral=session)
        changes = ChangeSignal()
        store.watch("/n", changes.notify)
        await changes.drain()
        server.kill()
        server.erase()  # type: ignore[attr-defined]
        server.launch()
        await asyncio.to_thread(server.wait_ready)
        began = time.monotonic()

        await eventually(
            partial(is_without_data, store, "/n"), "the open handle uses the new store"
        )
        print(f"{kind.scheme}: usable {time.monotonic() - began:.2f} s after losing all data")
        await changes.wait_notified("the watch fires after the reconnect")
        async with asyncio.timeout(60):
            await lost.wait()
        with pytest.raises(SessionLostError):
            await store.create("/claim", b"still mine", ephemeral=session)
        async with kind.opened(server.address, "erased") as fresh:
            _, new = await fresh.create("/n", b"new")
            await changes.wait_notified("the watch was set again")
            for handle in (fresh, store):
                assert await handle.get("/n") == (b"new", new)
                with pytest.raises(BadVersionError):
                    await handle.put("/n", b"x", expect=old)
            await store.put("/n", b"newer", expect=new)
            assert (await fresh.get("/n")).data == b"newer"


def test_no_acknowledged_write_is_lost_when_the_leader_of_three_is_killed(kind: ServerKind) -> None:
    """Sessions survive, and watches fire after the reconnect."""
    members = metadata_servers.started(lambda: metadata_servers.ensemble(kind.make))
    try:
        asyncio.run(_lose_the_leader(kind, members))
    finally:
        for member in members:
            member.remove()


async def _lose_the_leader(kind: ServerKind, members: list[Server]) -> None:
    everywhere = ",".join(member.address for member in members)
    async with AsyncExitStack() as closing:
        store = await closing.enter_async_context(kind.opened(everywhere, "three", 5_000))
        other = await closing.enter_async_context(kind.opened(everywhere, "three", 5_000))
        adders, second = Adders(store), Adders(other)
        await adders.prepare()
        session = await store.session(8_000)
        await store.create("/claim", b"mine", ephemeral=session)
        changes = ChangeSignal()
        other.watch("/counters", changes.notify, prefix=True)
        leader = await _leader_of(members)
        async with asyncio.TaskGroup() as group:
            for key in range(KEYS // 2):
                group.create_task(adders.run(key))
                group.create_task(second.run(key + KEYS // 2))
            await asyncio.sleep(0.5)
            leader.kill()
            done, wait_notified = sum(adders.acknowledged), changes.count
            second_done = sum(second.acknowledged)

            async def both_go_on() -> bool:
                return (
                    sum(adders.acknowledged) > done + 5
                    and sum(second.acknowledged) > second_done + 5
                )

            await eventually(both_go_on, "writes under a new leader")
            adders.is_stopped = second.is_stopped = True
        await eventually(
            lambda: _has_fired_since(changes, wait_notified), "the watch fires under a new leader"
        )
        for key in range(KEYS):
            owner = adders if key < KEYS // 2 else second
            found = int((await other.get(f"/counters/{key}")).data)
            assert owner.acknowledged[key] <= found <= owner.acknowledged[key] + owner.unsure[key]
        assert not session.is_lost
        assert (await other.get("/claim")).data == b"mine"
        print(
            f"{kind.scheme}: leader killed: "
            f"{sum(adders.acknowledged) + sum(second.acknowledged)} done, "
            f"{sum(adders.unsure) + sum(second.unsure)} unknown, longest pause "
            f"{max(adders.longest_pause_s, second.longest_pause_s):.2f} s"
        )


async def _leader_of(members: list[Server]) -> Server:
    """Wait for exactly one leader and return it; an election may take a while."""
    for _ in range(100):
        leaders = [member for member in members if _leads(member)]
        if len(leaders) == 1:
            return leaders[0]
        await asyncio.sleep(0.2)
    raise AssertionError("the members did not elect a leader")


@pytest.mark.needs_server("etcd")
async def test_a_watch_survives_a_compaction_of_missed_changes() -> None:
    """etcd cancels a watch whose history was compacted; it is set again and fires."""
    proxy = metadata_servers.toxiproxy().proxy(metadata_servers.etcd().address)
    kind = ServerKind("etcd", metadata_servers.etcd, Etcd, 1_000)

    try:
        async with (
            kind.opened(metadata_servers.etcd().address, "compacted") as direct,
            kind.opened(proxy.address, "compacted") as store,
        ):
            await direct.create("/n")
            changes = ChangeSignal()
            store.watch("/n", changes.notify)
            await changes.drain()
            proxy.cut()
            for number in range(20):
                await direct.put("/n", b"%d" % number)
            _compact(metadata_servers.etcd())
            proxy.heal()
            await changes.wait_notified("changes whose history was compacted")
            assert (await store.get("/n")).data == b"19"
            await changes.drain()
            await direct.create("/another")
            _compact(metadata_servers.etcd())
            await direct.put("/n", b"last")
            await changes.wait_notified("a change after a compaction during the watch")
    finally:
        proxy.remove()


@pytest.mark.needs_server("etcd")
async def test_closing_a_handle_does_not_cancel_its_callers() -> None:
    """The calls raise an error although gRPC ends calls of a closed channel as if cancelled."""
    kind = ServerKind("etcd", metadata_servers.etcd, Etcd, 1_000)
    proxy = metadata_servers.toxiproxy().proxy(metadata_servers.etcd().address)

    try:
        async with kind.opened(proxy.address, "closing") as store:
            await store.create("/n")
            proxy.latency(200)
            calls = [asyncio.create_task(store.put("/n", b"%d" % each)) for each in range(3)]
            await asyncio.sleep(0.1)
            await store.close()
            for call in calls:
                with pytest.raises((ClosedError, IndeterminateError, MetadataUnavailableError)):
                    await call
    finally:
        proxy.remove()


async def _has_fired_since(changes: ChangeSignal, before: int) -> bool:
    return changes.count > before


def _leads(member: Server) -> bool:
    if isinstance(member, Etcd):
        return member.is_leader()
    assert isinstance(member, metadata_servers.ZooKeeper)
    return member.mode() == "leader"


def _compact(server: Etcd) -> None:
    """Compact all history of the server up to now."""
    status = _post(server, "maintenance/status", {})
    _post(server, "kv/compaction", {"revision": status["header"]["revision"], "physical": True})


def _post(server: Etcd, method: str, body: object) -> dict[str, dict[str, int]]:
    request = urllib.request.Request(
        f"http://{server.address}/v3/{method}", data=json.dumps(body).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        result: dict[str, dict[str, int]] = json.load(answer)
    return result
