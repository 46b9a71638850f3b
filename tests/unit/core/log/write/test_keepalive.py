"""Tests of keepalives, and of the errors of a reader that receives nothing for long."""

import asyncio

import pytest

from rhumbline.core.log.config import ReaderConfig, WriterConfig
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import (
    ConfigurationError,
    MetadataUnavailableError,
    ReaderStalledError,
    StreamIdleError,
)
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld


def fail_unavailable(name: str) -> None:
    raise MetadataUnavailableError(f"{name}: the store is unavailable")


def idle_config(world: LogWorld, idle_ms_max: int = 5_000) -> ReaderConfig:
    return ReaderConfig(retry_ms=100, poll_ms=50, idle_ms_max=idle_ms_max)


async def test_idle_writer_sends_keepalives(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(keepalive_ms=1_000))
    await writer.append(b"a")
    sent = world.ledgers.entries_sent
    await asyncio.sleep(60)
    assert 58 <= world.ledgers.entries_sent - sent <= 61
    await writer.append(b"b")
    await writer.close()
    sent = world.ledgers.entries_sent
    await asyncio.sleep(60)
    assert world.ledgers.entries_sent == sent, "a closed writer sends nothing"
    assert [r.payload for r in await world.read_all("s", 2)] == [b"a", b"b"]


async def test_busy_writer_sends_no_keepalives(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(keepalive_ms=1_000))
    for _ in range(100):
        await writer.append(b"x")
        await asyncio.sleep(0.5)
    assert world.ledgers.entries_sent == 100
    await writer.close()


async def test_keepalives_reset_the_idle_timeout_and_stay_hidden(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(keepalive_ms=1_000))
    await writer.append(b"a")
    reader = await world.open_namespace(reader_config=idle_config(world)).open_reader("s", EARLIEST)
    assert (await anext(reader)).payload == b"a"
    late = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(3600)
    assert not late.done(), "keepalives arrive, so the reader is not idle"
    await writer.append(b"b")
    assert (await late).payload == b"b"
    await reader.aclose()
    await writer.close()


async def test_reader_raises_idle_error_on_an_idle_stream(world: LogWorld) -> None:
    writer = await world.writer("s")
    await writer.append(b"a")
    reader = await world.open_namespace(reader_config=idle_config(world)).open_reader("s", EARLIEST)
    assert (await anext(reader)).payload == b"a"
    for _ in range(3):
        with pytest.raises(StreamIdleError) as caught:
            await anext(reader)
        assert caught.value.retryable
    await writer.append(b"b")
    assert (await anext(reader)).payload == b"b", "iterating again continues"
    await reader.aclose()
    await writer.close()


async def test_reader_raises_stalled_error_if_metadata_is_unavailable(world: LogWorld) -> None:
    writer = await world.writer("s")
    await writer.append(b"a")
    reader = await world.open_namespace(reader_config=idle_config(world)).open_reader("s", EARLIEST)
    assert (await anext(reader)).payload == b"a"
    world.store.on_call = fail_unavailable
    with pytest.raises(ReaderStalledError) as caught:
        await anext(reader)
    assert isinstance(caught.value.__cause__, MetadataUnavailableError)
    world.store.on_call = lambda name: None
    await writer.append(b"b")
    assert (await anext(reader)).payload == b"b"
    await reader.aclose()
    await writer.close()


async def test_reader_raises_stalled_error_if_confirmed_entries_do_not_arrive(
    world: LogWorld,
) -> None:
    writer = await world.writer("s")
    await writer.append(b"a")
    reader = await world.open_namespace(reader_config=idle_config(world)).open_reader("s", EARLIEST)
    assert (await anext(reader)).payload == b"a"
    world.ledgers.read_error = MetadataUnavailableError("no bookie returns the entry")
    await writer.append(b"b")
    with pytest.raises(ReaderStalledError, match="is confirmed"):
        await anext(reader)
    world.ledgers.read_error = None
    assert (await anext(reader)).payload == b"b"
    await reader.aclose()
    await writer.close()


async def test_end_is_behind_the_last_acknowledged_record(world: LogWorld) -> None:
    writer = await world.writer("s")
    first = await world.namespace.end("s")
    ticket = await writer.append(b"a")
    end = await world.namespace.end("s")
    assert first <= ticket.dlsn < end
    assert await world.namespace.end("s", fresh=False) <= end
    await writer.close()


def test_timeouts_are_validated() -> None:
    with pytest.raises(ConfigurationError):
        ReaderConfig(idle_ms_max=0)
    with pytest.raises(ConfigurationError):
        WriterConfig(close_ms_max=None)  # type: ignore[arg-type]
