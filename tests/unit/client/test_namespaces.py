"""Namespaces in several metadata stores: found by name, without the global store if it is away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from random import Random

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.backends.open_store import open_store
from rhumbline.client import cluster_stores, store_opening
from rhumbline.client.connect import Client
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.metadata.cluster_layout import initialise_cluster
from rhumbline.core.metadata.join_regional_store import join_regional_store
from rhumbline.core.metadata.read_only_store import WAIT_MS
from rhumbline.core.protocol.bookie_id import Region
from rhumbline.core.protocol.errors import (
    BadVersionError,
    ClosedError,
    ConfigurationError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NamespaceExistsError,
    NoSuchNamespaceError,
    SessionLostError,
    WrongClusterError,
)
from rhumbline.core.runtime.metadata_store import MetadataStore
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.support.fakes.regional_store import RegionalStore
from rhumbline.tests.unit.core.bookie.bookie_world import FixedClock

AWAY = "etcd://127.0.0.1:1/"
"""Nothing listens there."""

POLICY = StreamPolicy()
EAST, WEST = Region("east"), Region("west")
_clusters = count(1)


class Stores:
    """The URIs of a cluster's stores: the global one and those of east and west."""

    def __init__(self) -> None:
        number = next(_clusters)
        self.uri = f"memory:namespaces-{number}"
        self.regional = {name: f"memory:namespaces-{number}-{name}" for name in ("east", "west")}

    async def start(self, seed: int = 1) -> "Stores":
        store = await open_store(self.uri)
        await initialise_cluster(store, Random(seed))
        for region, uri in self.regional.items():
            regional = await open_store(uri)
            await join_regional_store(store, regional, region, Runtime(FixedClock(), Random(seed)))
            await regional.close()
        await store.close()
        return self

    @asynccontextmanager
    async def client(
        self,
        region: str | None,
        *known: str,
        uri: str | None = None,
        stale_after_ms: int = WAIT_MS,
    ) -> AsyncIterator[Client]:
        """Open a client in a region whose settings contain the stores of ``known`` regions."""
        regional = {name: self.regional[name] for name in known or self.regional}
        client = Client(
            uri or self.uri,
            region=region,
            moves_data=False,
            metadata_timeout_ms=1_000,
            metadata_stale_after_ms=stale_after_ms,
            regional_metadata=regional,
        )
        async with client:
            yield client


async def listed(client: Client) -> list[tuple[str, str | None]]:
    return [(name, region) async for name, region in client.namespaces.all()]


async def test_namespaces_of_all_stores_are_used_by_their_names() -> None:
    stores = await Stores().start()
    async with stores.client("east") as east, stores.client("west") as west:
        await east.namespaces.create("everywhere", POLICY)
        await east.namespaces.create("local", POLICY, EAST)
        await east.namespaces.create("far", POLICY, WEST)
        with pytest.raises(NamespaceExistsError):
            await west.namespaces.create("local", POLICY, WEST)
        for client in (east, west):
            for name in ("everywhere", "local", "far"):
                assert name in [found for found, _ in await listed(client)]
                await client.namespace(name).policy()
            assert (await client.namespaces.find("local")).store_region == "east"
            assert (await client.namespaces.find("everywhere")).store_region is None
        await east.namespace("local").create_stream("s")
        assert await west.namespace("local").streams() == ["s"]
        assert await listed(west) == [("everywhere", None), ("far", "west"), ("local", "east")]
        await west.namespace("local").delete_stream("s")
        await west.namespaces.delete("local")
        await west.namespaces.delete("everywhere")
        assert await listed(east) == [("far", "west")]
        with pytest.raises(NoSuchNamespaceError):
            await east.namespaces.delete("local")


async def test_an_open_namespace_follows_its_name_to_another_store() -> None:
    stores = await Stores().start()
    async with stores.client("east") as client:
        await client.namespaces.create("moving", POLICY, EAST)
        before = client.namespace("moving")
        await before.create_stream("s")
        value = await before.store.get("/rhumbline/namespaces/moving/streams/s")
        await before.delete_stream("s")
        await client.namespaces.delete("moving")
        await client.namespaces.create("moving", POLICY)
        await before.policy()
        assert (await client.namespaces.find("moving")).store_region is None
        await before.create_stream("s")
        with pytest.raises(BadVersionError):  # what was read in one store changes no other
            path = "/rhumbline/namespaces/moving/streams/s"
            await before.store.put(path, value.data, expect=value.version)


async def test_a_change_that_was_prepared_in_the_store_before_is_not_carried_out() -> None:
    stores = await Stores().start()
    async with stores.client("east") as client:
        await client.namespaces.create("moving", POLICY, EAST)
        namespace = client.namespace("moving")
        await namespace.create_stream("s")
        path = "/rhumbline/namespaces/moving/streams/s"
        value = await namespace.store.get(path)
        session = await namespace.store.session(10_000)
        lost = asyncio.Event()
        session.on_lost(lost.set)
        await (await client.namespaces.mover("moving", None)).run()
        with pytest.raises(MetadataUnavailableError, match="nothing was changed"):
            await namespace.store.put(path, value.data, expect=value.version)
        assert session.is_lost
        assert lost.is_set()
        with pytest.raises(SessionLostError):
            await namespace.store.create("/rhumbline/x", ephemeral=session)
        assert await namespace.store.get(path)
        await session.close()
        await (await client.namespaces.mover("moving", EAST)).run()
        assert await namespace.streams() == ["s"]
        with pytest.raises(InvalidArgumentError, match="no namespace other is in a regional store"):
            await client.namespaces.mover("other", None)


async def test_a_watch_is_set_before_the_store_is_found() -> None:
    stores = await Stores().start()
    async with stores.client("east") as client:
        await client.namespaces.create("local", POLICY, EAST)
        namespace = client.namespace("local")
        seen, path = asyncio.Event(), "/rhumbline/namespaces/local"
        closed = namespace.store.watch(path, pytest.fail)
        closed.close()
        watch = namespace.store.watch(path, seen.set)
        value = await namespace.store.get(path)
        await namespace.store.put(path, value.data)
        async with asyncio.timeout(10):
            await seen.wait()
        watch.close()


async def test_a_region_that_is_cut_off_uses_its_own_namespaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_stores, "GLOBAL_WAIT_MS", 50)
    stores = await Stores().start()
    async with stores.client("west") as client:
        await client.namespaces.create("local", POLICY, EAST)
        await client.namespaces.create("everywhere", POLICY)
    with recorded_log("rhumbline.client.cluster_stores") as log:
        async with stores.client("east", uri=AWAY) as client:
            assert log.events() == ["global store unavailable"]
            assert await listed(client) == [("local", "east")]
            with pytest.raises(MetadataUnavailableError):
                await anext(client.namespaces.all(may_be_partial=False))
            await client.namespace("local").create_stream("s")
            assert await client.namespace("local").streams() == ["s"]
            assert client.statistics()["ledgers"]["open_handles"] == 0
            with pytest.raises(MetadataUnavailableError):
                await client.namespace("everywhere").policy()
            with pytest.raises(MetadataUnavailableError):
                await client.namespaces.create("other", POLICY, EAST)
            with pytest.raises(MetadataUnavailableError):
                assert client.directory
    with pytest.raises(MetadataUnavailableError):
        async with stores.client("north", uri=AWAY):
            pass


async def test_a_region_that_is_cut_off_finds_other_namespaces_in_old_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stores = await Stores().start()
    async with stores.client("west") as client:
        await client.namespaces.create("everywhere", POLICY)
        await client.namespace("everywhere").create_stream("s")
        await client.namespaces.create("far", POLICY, WEST)

    async def open_cut_off(uri: str, *, timeout_ms: int) -> MetadataStore:
        found = await open_store(uri, timeout_ms=timeout_ms)
        if uri != stores.uri:
            return found
        assert isinstance(found.current, MemoryStore)
        store = RegionalStore(found.current.tree)
        await found.close()
        store.cut_off()
        return store

    monkeypatch.setattr(store_opening, "open_store", open_cut_off)
    monkeypatch.setattr(cluster_stores, "GLOBAL_WAIT_MS", 50)  # it is opened after this time
    async with stores.client("east", stale_after_ms=200) as client:
        assert (await client.namespace("everywhere").describe("s")).metadata_age_ms is not None
        assert (await client.namespaces.find("far")).store_region == "west"
        with pytest.raises(MetadataUnavailableError):
            await client.namespaces.find("unknown")


async def test_an_unreachable_regional_store_hides_no_namespace() -> None:
    """The global store alone would answer that the namespace is not there."""
    stores = await Stores().start()
    async with stores.client("west") as client:
        await client.namespaces.create("everywhere", POLICY)
        await client.namespaces.create("local", POLICY, EAST)
    stores.regional["east"] = AWAY
    async with stores.client("west") as client:
        await client.namespace("everywhere").policy()
        with pytest.raises(MetadataUnavailableError):
            await client.namespace("local").policy()
    with pytest.raises(MetadataUnavailableError):
        async with stores.client("east"):
            pass


async def test_a_store_that_is_not_in_the_settings_is_named() -> None:
    stores = await Stores().start()
    async with stores.client("west") as client:
        await client.namespaces.create("local", POLICY, EAST)
    async with stores.client("west", "west") as client:
        with pytest.raises(ConfigurationError, match="store of region east is not in the settings"):
            await client.namespace("local").policy()
    async with Client(stores.uri, region="west", moves_data=False) as client:
        with pytest.raises(NoSuchNamespaceError, match="metadata store of region east"):
            await client.namespace("local").policy()


async def test_a_wrong_regional_store_is_refused() -> None:
    stores, other = await Stores().start(), await Stores().start(2)
    stores.regional["east"] = stores.regional["west"]
    with pytest.raises(WrongClusterError, match="store of region west, not of east"):
        async with stores.client("east"):
            pass
    stores.regional["east"] = other.regional["east"]
    with pytest.raises(WrongClusterError, match="but the other metadata stores belong to"):
        async with stores.client("east"):
            pass


async def test_a_client_of_a_regional_store_alone_issues_ids_of_its_range() -> None:
    """Otherwise an operator who names this store by --metadata would create colliding ledgers."""
    stores = await Stores().start()
    async with Client(stores.regional["west"], region="west", moves_data=False) as client:
        assert await client.ledger_store.next_id() == 2 << 48


async def test_a_closed_client_refuses_everything() -> None:
    stores = await Stores().start()
    async with stores.client("east") as client:
        pass
    with pytest.raises(ClosedError):
        client.namespace("local")
    with pytest.raises(ClosedError):
        assert client.store
