"""Tests of a stream in three regions on every metadata store, with real sockets and files."""

import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rhumbline.core.protocol.errors import OwnershipLostError
from rhumbline.tests.support.processes.stream_scenario import (
    REGIONS,
    STREAM,
    Producer,
    Tail,
    begin,
    client_in,
    cluster_at,
)
from rhumbline.tests.support.servers.store_locations import KINDS, StoreLocation, store_location_of

SOME = 60


@pytest.fixture(params=KINDS)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreLocation]:
    with store_location_of(request.param, tmp_path) as found:
        yield found


async def test_a_stream_survives_a_takeover_and_a_region_cut_off(
    location: StoreLocation, tmp_path: Path
) -> None:
    async with AsyncExitStack() as closing:
        cluster = await closing.enter_async_context(cluster_at(location.uri, tmp_path / "c"))
        bonn, oslo, rome = [
            await closing.enter_async_context(client_in(cluster, region)) for region in REGIONS
        ]
        await begin(bonn)
        producer, tail = Producer(), await closing.enter_async_context(Tail(rome))
        first = await bonn.namespace().open_writer(STREAM)
        await producer.send(bonn, first, SOME)
        await tail.reaches(SOME)

        began = time.monotonic()
        writer = await oslo.namespace().open_writer(STREAM)  # without the first owner's consent
        takeover_s = time.monotonic() - began
        with pytest.raises(OwnershipLostError):
            await first.append(b"from the old owner")
        await first.abort()
        writer = await producer.send(oslo, writer, SOME)
        await tail.reaches(2 * SOME)

        cluster.cut("rome")
        writer = await producer.send(oslo, writer, SOME)
        assert len(tail.seen) < 3 * SOME
        cluster.heal("rome")
        await tail.reaches(3 * SOME)
        writer = await producer.send(oslo, writer, SOME)
        await tail.reaches(4 * SOME)
        print(
            f"{location.name.partition(',')[0]}: {producer.sent} records, each once and in "
            f"order; taken over in {takeover_s * 1000:.0f} ms"
        )
        await writer.close()
