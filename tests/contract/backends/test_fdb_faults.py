"""Tests of FoundationDB clusters of one and of three processes whose processes fail under load.

The guide to metadata stores lists the faults. The tests are skipped without FoundationDB.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from rhumbline.backends.conformance.assertions import ChangeSignal
from rhumbline.backends.open_store import open_store
from rhumbline.core.protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataUnavailableError,
)
from rhumbline.core.runtime.metadata_store import MetadataStore, Version
from rhumbline.tests.support.servers import metadata_servers
from rhumbline.tests.support.servers.adders import KEYS, Adders
from rhumbline.tests.support.servers.fdb_faults import (
    OF_ONE,
    OF_THREE,
    Fault,
    all_frozen,
    all_killed,
    each_in_turn,
    kill,
    name_of,
)
from rhumbline.tests.support.servers.fdb_servers import FdbCluster
from rhumbline.tests.support.servers.lost_data import is_without_data
from rhumbline.tests.support.servers.store_locations import unique_name

TIMEOUT_MS = 5_000
TTL_MS = 60_000
"""Time to live of a session that must survive each fault."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def one() -> Iterator[FdbCluster]:
    yield from started(1)


@pytest.fixture(scope="module")
def three() -> Iterator[FdbCluster]:
    yield from started(3)


def started(count: int) -> Iterator[FdbCluster]:
    """A cluster for the tests of this file, which disturb it but leave it complete."""
    cluster = metadata_servers.started(lambda: FdbCluster(count))
    cluster.start()
    yield cluster
    cluster.remove()


@asynccontextmanager
async def opened(cluster: FdbCluster, name: str) -> AsyncIterator[MetadataStore]:
    store = await open_store(cluster.uri(name), timeout_ms=TIMEOUT_MS)
    try:
        yield store
    finally:
        await store.close()


async def within_a_minute(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the cluster has recovered."""
    deadline = time.monotonic() + 60
    while not await condition():
        assert time.monotonic() < deadline, "the cluster does not recover"
        await asyncio.sleep(0.05)


async def disturb(cluster: FdbCluster, fault: Fault) -> None:
    """Play a fault while two handles write, and check what each of them was told."""
    name = unique_name()
    async with opened(cluster, name) as store, opened(cluster, name) as other:
        first, second = Adders(store), Adders(other)
        await first.prepare()
        session = await store.session(TTL_MS)
        await store.create("/claim", b"mine", ephemeral=session)
        numbered, _ = await store.create("/queue/n-", sequential=True)
        changes = ChangeSignal()
        other.watch("/claim", changes.notify)
        await changes.drain()
        async with asyncio.TaskGroup() as group:
            for key in range(KEYS):
                group.create_task((first if key % 2 else second).run(key))
            await asyncio.sleep(0.5)
            await fault(cluster)
            done = sum(first.acknowledged), sum(second.acknowledged)

            async def both_go_on() -> bool:
                return (
                    sum(first.acknowledged) > done[0] + 5 and sum(second.acknowledged) > done[1] + 5
                )

            await within_a_minute(both_go_on)
            first.is_stopped = second.is_stopped = True
        for key in range(KEYS):
            owner = first if key % 2 else second
            found = int((await other.get(f"/counters/{key}")).data)
            assert owner.acknowledged[key] <= found <= owner.acknowledged[key] + owner.unsure[key]
        assert not session.is_lost
        assert (await other.get("/claim")).data == b"mine"
        assert (await other.create("/queue/n-", sequential=True))[0] > numbered
        await changes.drain()
        await store.put("/claim", b"still mine")
        await changes.wait_notified("a change after the fault")
        print(
            f"{len(cluster.servers)} processes, {name_of(fault)}: "
            f"{sum(first.acknowledged) + sum(second.acknowledged)} done, "
            f"{sum(first.unsure) + sum(second.unsure)} unknown, "
            f"{first.refused + second.refused} refused, longest pause "
            f"{max(first.longest_pause_s, second.longest_pause_s):.2f} s"
        )


@pytest.mark.parametrize("fault", OF_ONE, ids=name_of)
async def test_one_process_of_fdb_loses_nothing(fault: Fault, one: FdbCluster) -> None:
    await asyncio.to_thread(one.wait_healthy)
    await disturb(one, fault)


@pytest.mark.parametrize("fault", OF_THREE, ids=name_of)
async def test_three_processes_of_fdb_lose_nothing(fault: Fault, three: FdbCluster) -> None:
    await asyncio.to_thread(three.wait_healthy)
    await disturb(three, fault)


@pytest.mark.parametrize("fault", [all_frozen, all_killed], ids=name_of)
async def test_calls_without_a_majority_of_fdb_end_at_their_deadline(
    fault: Fault, three: FdbCluster
) -> None:
    await asyncio.to_thread(three.wait_healthy)
    async with opened(three, unique_name()) as store:
        await store.create("/n", b"before")
        outage = asyncio.ensure_future(fault(three))
        await asyncio.sleep(0.2)
        began = time.monotonic()
        async with asyncio.timeout(60):
            results = await asyncio.gather(
                *[store.put("/n", b"%d" % number) for number in range(20)],
                store.get("/n"),
                return_exceptions=True,
            )
        spent_s = time.monotonic() - began
        allowed = (str, tuple, MetadataUnavailableError, IndeterminateError)
        assert all(isinstance(result, allowed) for result in results), results
        await outage
        print(f"{name_of(fault)}: 20 writes and a read ended after {spent_s:.2f} s")

        async def works() -> bool:
            try:
                await store.put("/n", b"after")
            except (MetadataUnavailableError, IndeterminateError):
                return False
            return True

        await within_a_minute(works)


async def test_a_cluster_of_fdb_that_lost_its_data_is_a_new_store() -> None:
    """No earlier node, version or session is valid; an open handle continues with the new store."""
    cluster = metadata_servers.started(FdbCluster)
    try:
        await asyncio.to_thread(cluster.start)
        async with opened(cluster, "erased") as store:
            _, old = await store.create("/n", b"old")
            session = await store.session(4_000)
            await asyncio.to_thread(cluster.lose_data)

            await within_a_minute(partial(is_without_data, store, "/n"))
            _, new = await store.create("/n", b"new")
            async with opened(cluster, "erased") as other:
                assert await other.get("/n") == (b"new", new)
                for handle in (store, other):
                    with pytest.raises(BadVersionError):
                        await handle.put("/n", b"x", expect=old)

            async def is_lost() -> bool:
                return session.is_lost

            await within_a_minute(is_lost)
    finally:
        cluster.remove()


async def test_compare_and_set_in_fdb_makes_one_chain_while_processes_are_killed(
    three: FdbCluster,
) -> None:
    """Every acknowledged change of one node has its own predecessor, and reads never go back."""
    await asyncio.to_thread(three.wait_healthy)
    name = unique_name()
    successor: dict[Version, int] = {}
    unknown = 0
    is_over = False

    async def change(store: MetadataStore) -> None:
        nonlocal unknown
        seen = -1
        while not is_over:
            try:
                value = await store.get("/n")
            except MetadataUnavailableError:
                continue
            assert int(value.data) >= seen, "a read went backwards"
            seen = int(value.data)
            try:
                await store.put("/n", b"%d" % (seen + 1), expect=value.version)
            except IndeterminateError:
                unknown += 1
            except (MetadataUnavailableError, BadVersionError):
                continue
            else:
                assert value.version not in successor, "two changes of one version"
                successor[value.version] = seen + 1

    async with opened(three, name) as first, opened(three, name) as second:
        await first.create("/n", b"0")
        async with asyncio.TaskGroup() as group:
            for store in (first, second, first, second):
                group.create_task(change(store))
            await each_in_turn(three, kill)
            is_over = True
        last = int((await first.get("/n")).data)
        assert sorted(successor.values()) == sorted(set(successor.values()))
        assert len(successor) <= last <= len(successor) + unknown
        print(f"{len(successor)} changes in one chain of {last}, {unknown} with unknown outcome")
