"""Tests of outages of the metadata store: appends and reads continue, and other calls fail in time.

RHUMBLINE_AWAY_S is the length of the outage in seconds (default: 3; `make away` uses a minute).
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rhumbline.client.connect import Client
from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.errors import MetadataUnavailableError, NotEnoughBookiesError
from rhumbline.core.protocol.ledger_metadata import LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.support.processes.stream_scenario import (
    STREAM,
    Producer,
    ScenarioCluster,
    Tail,
    begin,
    client_in,
    cluster_at,
)
from rhumbline.tests.support.servers.store_locations import (
    FREEZABLE_KINDS,
    KINDS,
    StoreLocation,
    store_location_of,
)

AWAY_S = float(os.environ.get("RHUMBLINE_AWAY_S", "3"))
SOME = 60
EAGER = LedgerConfig(request_timeout_ms=1_000, change_mode="eager", underreplicated_ms_max=3_000)
"""A configuration with quick retries of ensemble changes.

After the outage the bookies may have to register again before one can replace another. A writer
that found no replacement therefore retries soon.
"""
STALLS_AFTER_S = 60.0
"""An append or a read that takes longer waits for the store, which does not return meanwhile."""


@pytest.fixture(params=[*KINDS, *FREEZABLE_KINDS])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreLocation]:
    with store_location_of(request.param, tmp_path) as found:
        yield found


@dataclass
class Rolling:
    """A stream with short segments, and the segments of its records."""

    writer: StreamWriter
    segments: list[int] = field(default_factory=list)

    async def send(self, count: int = 10) -> None:
        """Append records; ten are enough for a segment."""
        for _ in range(count):
            at = await self.writer.append(b"x" * 1_000)
            self.segments.append(at.dlsn.lssn)


async def fragments(client: Client) -> int:
    """Return the number of ensemble changes in all ledgers."""
    ids = await client.ledger_store.ids()
    return sum([len((await client.ledger_store.read(each))[0].fragments) - 1 for each in ids])


async def introduced(cluster: ScenarioCluster, client: Client) -> None:
    """Wait until every bookie has verified that it is a member of its open ledgers.

    Opening a writer waits only for a quorum. A bookie that has not read the metadata when the store
    becomes unavailable refuses the first entry.
    """
    bookies = {
        local.bookie.bookie_id: local.bookie
        for local in cluster.bookies
        if local.bookie is not None
    }
    async with asyncio.timeout(STALLS_AFTER_S):
        for ledger_id in await client.ledger_store.ids():
            ledger, _ = await client.ledger_store.read(ledger_id)
            if ledger.state is LedgerState.OPEN:
                for member in ledger.last_fragment.bookies:
                    while not is_proven(bookies[member], ledger_id):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)


def is_proven(bookie: Bookie, ledger_id: int) -> bool:
    """Return whether a bookie has verified that it is a member of a ledger."""
    record = bookie.service.ledgers.get(ledger_id)
    return record is not None and record.is_proven


@pytest.mark.timeout(AWAY_S + 400)
async def test_appends_and_reads_continue_during_an_outage(
    location: StoreLocation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Opening a stream fails; a new segment and the replacement of a bookie wait for the store."""
    caplog.set_level(logging.WARNING)
    async with AsyncExitStack() as closing:
        cluster = await closing.enter_async_context(
            cluster_at(location.uri, tmp_path / "c", bookies_per_region=2)
        )
        bonn = await closing.enter_async_context(client_in(cluster, "bonn", 1_500, EAGER))
        rome = await closing.enter_async_context(client_in(cluster, "rome"))
        await begin(bonn, (STREAM, "other", "quiet"))
        short = StreamPolicy(quorum=Quorum(3, 3, 2, 2), roll_bytes=8_000)
        await bonn.namespace().create_stream("rolling", short)
        producer, tail = Producer(), await closing.enter_async_context(Tail(rome))
        writer = await bonn.namespace().open_writer(STREAM)
        rolling = Rolling(await bonn.namespace().open_writer("rolling"))
        writer = await producer.send(bonn, writer, SOME)
        while len(set(rolling.segments)) < 3:
            await rolling.send()
        await tail.reaches(SOME)
        quiet = await bonn.namespace().open_writer("quiet")
        await introduced(cluster, bonn)
        before = max(rolling.segments)
        changes = await fragments(bonn)

        location.make_unavailable()
        try:
            slowest_s, reads_s, refusal, refused_s = await while_away(
                bonn, writer, producer, tail, rolling, lambda: cluster.cut_link("bonn", "oslo")
            )
            async with asyncio.timeout(STALLS_AFTER_S):
                await quiet.append(b"the first record of a segment that was empty")
        finally:
            location.make_available()
        meanwhile = max(rolling.segments) - before
        assert meanwhile <= 1  # one may have been in progress
        assert producer.repeated == 0

        async with asyncio.timeout(120):
            other = await opened(bonn, "other")
            while max(rolling.segments) < before + meanwhile + 2:
                await rolling.send()
            while await fragments(bonn) == changes:
                await producer.send(bonn, writer, 1)
        cluster.heal("oslo")
        await other.append(b"again")
        writer = await producer.send(bonn, writer, SOME)
        await tail.reaches(producer.sent)
        for each in (other, quiet, rolling.writer, writer):
            await each.close()
        messages = [record.getMessage() for record in caplog.records]
        logged = [message for message in messages if "metadata store" in message]
        assert any("unavailable" in line and "streams continue" in line for line in logged)
        print(
            f"{location.name}: {AWAY_S:.0f} s away: "
            f"{producer.sent} appends, the slowest {slowest_s * 1000:.0f} ms; a tail in "
            f"another region at most {reads_s * 1000:.0f} ms behind; none lost or duplicated\n"
            f"  opening a stream: refused after {refused_s:.1f} s: {refusal}\n"
            f"  segments begun meanwhile: {meanwhile}, afterwards "
            f"{max(rolling.segments) - before - meanwhile}; a bookie that failed meanwhile was "
            f"replaced when the store was back\n  {logged[0]}"
        )


async def while_away(
    client: Client,
    writer: StreamWriter,
    producer: Producer,
    tail: Tail,
    rolling: Rolling,
    fail_a_bookie: Callable[[], None],
) -> tuple[float, float, Exception, float]:
    """Run the load during the outage.

    Returns the slowest append and the longest lag of the tail in seconds, and the error of opening
    a stream with its delay in seconds.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + AWAY_S
    producer.longest_pause_s = reads_s = 0.0
    opening = asyncio.create_task(refused(client))
    has_failed = False
    while loop.time() < until or not opening.done():
        async with asyncio.timeout(STALLS_AFTER_S):
            assert await producer.send(client, writer, 10) is writer, "another owner"
            began = loop.time()
            await tail.reaches(producer.sent)
            reads_s = max(reads_s, loop.time() - began)
            await rolling.send()
        if not has_failed and loop.time() > until - AWAY_S / 2:
            has_failed = True
            fail_a_bookie()
    return producer.longest_pause_s, reads_s, *await opening


async def refused(client: Client) -> tuple[Exception, float]:
    """Return the error of opening a stream during the outage, and its delay in seconds."""
    began = time.monotonic()
    with pytest.raises(MetadataUnavailableError) as refusal:
        await client.namespace().open_writer("other")
    return refusal.value, time.monotonic() - began


async def opened(client: Client, stream: str) -> StreamWriter:
    """Open a stream as soon as possible; bookies may have to register again first."""
    while True:
        try:
            return await client.namespace().open_writer(stream)
        except (MetadataUnavailableError, NotEnoughBookiesError):
            await asyncio.sleep(0.1)
