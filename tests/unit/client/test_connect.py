"""Tests of the blocks that a client opens, over streams in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Any

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.client import connect as connect_module
from rhumbline.client.connect import Client
from rhumbline.client.topics import Topics
from rhumbline.core.log.config import WriterConfig
from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.read.segment_opener import Archives
from rhumbline.core.log.topics.topics import create_topic
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.metadata.cluster_layout import initialise_cluster
from rhumbline.core.metadata.declared_regions import declare_regions
from rhumbline.core.protocol.bookie_id import check_region, mint_bookie_id
from rhumbline.core.protocol.errors import (
    ConfigurationError,
    DeadlineExceededError,
    InvalidArgumentError,
    MetadataUnavailableError,
)
from rhumbline.core.runtime.metadata_store import MetadataStore
from rhumbline.core.wire.registration import Registration
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.recorded_log import recorded_log


class WorldClient(Client):
    """A client whose namespace is that of a test world. Its writers close for at most 50 ms."""

    def __init__(self, world: LogWorld) -> None:
        super().__init__("memory://", runtime=world.runtime)
        self._world = world

    @property
    def store(self) -> MetadataStore:
        return self._world.store

    def namespace(self, name: str | None = None, *, archives: Archives | None = None) -> Namespace:
        return self._world.open_namespace(WriterConfig(close_ms_max=50))


OpenWriter = Callable[[Client], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def _world_with_streams(world: LogWorld) -> AsyncIterator[Client]:
    """Yield a client of streams whose records are never acknowledged."""
    await world.namespace.create_stream("s")
    await create_topic(world.store, world.namespace, "t", 2)
    world.ledgers.are_acks_held = True
    yield WorldClient(world)


WRITERS: list[OpenWriter] = [
    lambda client: client.writer("s"),
    lambda client: Topics(client).writer("t"),
]


@pytest.mark.parametrize("open_writer", WRITERS)
async def test_error_of_the_block_is_not_hidden_by_the_writer(
    world: LogWorld, open_writer: OpenWriter
) -> None:
    """The error of closing replaced the block's own."""
    async with _world_with_streams(world) as client:
        with pytest.raises(ValueError, match="of the block") as raised:
            async with open_writer(client) as writer:
                writer.append(b"never acknowledged")
                raise ValueError("of the block")
        assert "DeadlineExceededError" in raised.value.__notes__[0]
        with pytest.raises(DeadlineExceededError):
            async with open_writer(client) as writer:
                writer.append(b"never acknowledged")


@pytest.mark.parametrize("open_writer", WRITERS)
async def test_cancellation_and_time_outs_pass_through_the_writer(
    world: LogWorld, open_writer: OpenWriter
) -> None:
    """The error of closing replaced the cancellation, so a time-out was not noticed."""

    async def append(client: Client) -> None:
        async with open_writer(client) as writer:
            await writer.append(b"never acknowledged")

    async with _world_with_streams(world) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await append(client)
        task = asyncio.create_task(append(client))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


async def _two_regions() -> MemoryStore:
    """Return the store of a cluster with bookies in rome and oslo; the one in oslo is down."""
    store = MemoryStore()
    await initialise_cluster(store, Random(1))
    directory = BookieDirectory(store)
    for number, (region, is_up) in enumerate((("rome", True), ("oslo", False))):
        bookie = mint_bookie_id(f"b{number}", 1)
        await directory.record_region(bookie, check_region(region))
        await store.create(BookieDirectory(store)._paths.cookie(bookie), b"")
        if is_up:
            session = await store.session(10_000)
            await directory.register(session, Registration(bookie, "host", 1, {}))
    directory.close()
    return store


@pytest.mark.parametrize("region", ["rome", "oslo", "nowhere"])
async def test_region_needs_no_running_bookie(region: str) -> None:
    """Applications and proxies may run where no bookie is."""
    async with Client("memory://", region=region, store=await _two_regions()) as client:
        assert client.region == region


async def test_a_region_that_is_not_declared_is_refused() -> None:
    store = await _two_regions()
    directory = BookieDirectory(store)
    await declare_regions(store, directory, ["rome", "oslo", "bonn"])
    directory.close()
    with pytest.raises(ConfigurationError, match="this process names region nowhere"):
        async with Client("memory://", region="nowhere", store=store):
            pass
    async with Client("memory://", region="bonn", store=store) as client:
        assert client.region == "bonn"


async def test_a_region_is_not_checked_while_the_store_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def unavailable(*_: object, **__: object) -> None:
        raise MetadataUnavailableError("no answer")

    monkeypatch.setattr(connect_module, "read_declared_regions", unavailable)
    with recorded_log("rhumbline.client.connect") as log:
        async with Client("memory://", region="nowhere", store=await _two_regions()):
            pass
    assert log.events() == ["region not checked"]


def test_client_is_refused_in_a_second_event_loop() -> None:
    """It seemed to work there."""
    client = Client("memory://", region="rome", runtime=LogWorld().runtime)

    async def open_client() -> None:
        client._given_store = await _two_regions()
        await client.__aenter__()

    async def use() -> None:
        async with client.writer("s"):
            pass

    with asyncio.Runner() as first:
        first.run(open_client())
        another_loop = pytest.raises(InvalidArgumentError, match="another event loop")
        with asyncio.Runner() as second, another_loop:
            second.run(use())
        first.run(client.aclose())
