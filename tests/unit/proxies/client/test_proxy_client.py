"""Tests of the blocks that the thin client opens."""

import asyncio
from random import Random
from typing import cast

import pytest

from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    MetadataUnavailableError,
)
from rhumbline.core.protocol.start import LATEST
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.proxies.client.proxy_client import ProxyClient
from rhumbline.proxies.client.proxy_namespace import ProxyNamespace
from rhumbline.proxies.client.proxy_writer import ProxyWriter
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.rpc_transport import RpcTransport
from rhumbline.tests.support.fakes.log_world import LogWorld, ManualClock
from rhumbline.tests.unit.proxies.proxy_world import ProxyWorld


class NoCalls:
    """A transport without connections."""

    async def aclose(self) -> None:
        """Hold nothing."""

    def __getattr__(self, name: str) -> None:
        raise AssertionError(f"{name} was called")


class WorldClient(ProxyClient):
    """A thin client whose writers belong to a test world."""

    def __init__(self, world: ProxyWorld) -> None:
        super().__init__("grpc://one:1", world.log.runtime, cast(RpcTransport, None))
        self._world = world

    def namespace(self, name: str | None = None) -> ProxyNamespace:
        return WorldNamespace(self, self._world)


class WorldNamespace(ProxyNamespace):
    def __init__(self, client: ProxyClient, world: ProxyWorld) -> None:
        super().__init__(client, "test")
        self._world = world

    async def open_writer(self, name: str) -> ProxyWriter:
        return self._world.writer(name, timeout_ms=2_000)


async def test_errors_and_cancellation_of_the_block_are_not_hidden(log: LogWorld) -> None:
    """The error of closing replaced the block's own, and cancellation."""
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    log.ledgers.are_acks_held = True
    client = WorldClient(world)
    with pytest.raises(ValueError, match="of the block") as raised:
        async with client.writer("s") as writer:
            writer.append(b"never acknowledged")
            raise ValueError("of the block")
    assert raised.value.__notes__[0].startswith("closing failed as well: ")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5), client.writer("s") as writer:
            await writer.append(b"never acknowledged")
    with pytest.raises(DeadlineExceededError):
        async with client.writer("s") as writer:
            writer.append(b"never acknowledged")
    log.ledgers.are_acks_held = False
    log.ledgers.release_acks()
    await world.stop()


class OldSource:
    """A read that a proxy began with old metadata."""

    lssn, entry_id, is_ready = 3, 7, False

    async def open(self, start: object, *, advances_if_truncated: bool) -> pb.ReadStart:
        return pb.ReadStart(position=pb.Position(lssn=3, entry_id=7), metadata_age_ms=4_000)

    async def aclose(self) -> None:
        """Hold nothing."""


async def test_reader_says_that_its_proxy_only_knew_old_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ProxyClient, "new_source", lambda *_: OldSource())
    async with (
        ProxyClient(
            "grpc://one:1", Runtime(ManualClock(), Random(1)), cast(RpcTransport, NoCalls())
        ) as client,
        client.reader("s", LATEST) as reader,
    ):
        assert reader.metadata_age_ms == 4_000
        with pytest.raises(MetadataUnavailableError):
            reader.confirmed_position()


@pytest.mark.parametrize("bad", ["1:0:0", None])
async def test_values_that_are_no_positions_are_refused(bad: object) -> None:
    """They raised AttributeError from inside."""
    async with ProxyClient(
        "grpc://one:1", Runtime(ManualClock(), Random(1)), cast(RpcTransport, NoCalls())
    ) as c:
        with pytest.raises(InvalidArgumentError, match="start"):
            async with c.reader("s", cast(Dlsn, bad)):
                pass


def test_client_is_refused_in_a_second_event_loop() -> None:
    """It seemed to work there."""
    client = ProxyClient(
        "grpc://one:1", Runtime(ManualClock(), Random(1)), cast(RpcTransport, NoCalls())
    )

    async def use() -> None:
        await client.namespace().describe("s")

    asyncio.run(_open(client))
    with pytest.raises(InvalidArgumentError, match="another event loop"):
        asyncio.run(use())


async def _open(client: ProxyClient) -> None:
    await client.__aenter__()
