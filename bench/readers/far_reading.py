"""The benchmark of catch-up reads by a client in another region, by round trip.

The stream has its copies in one region; the client reads it from its start through links that delay
each direction. The links limit no bandwidth, so the rate shows how much is read ahead.
"""

import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...client.connect import Client
from ...core.log.policy import FlushPolicy, StreamPolicy
from ...core.protocol.errors import GapError
from ...core.protocol.quorum import Quorum
from ..harness.load import NAMESPACE, ensure_namespace
from ..harness.region_processes import RegionProcesses

REGION = "a"
"""The region of the three bookies."""
VIEWER = "b"
"""The region of the reader."""

_STREAM = "far"
BATCH = 1_000
"""Records that are appended at once; the number of records is a multiple."""


@dataclass(frozen=True, slots=True)
class FarWorkload:
    """The records to read, and the round trips of the rows."""

    records: int
    size: int
    round_trips_ms: Sequence[float]


async def measure_far_reading(
    servers: RegionProcesses, work: FarWorkload
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row for each round trip. Raises GapError if records are missing."""
    async with _client(servers, REGION) as client:
        await _write(client, work)
    for round_trip_ms in work.round_trips_ms:
        servers.set_round_trip(round_trip_ms)
        async with _client(servers, VIEWER) as client:
            started = time.perf_counter()
            read = await _read(client, work.records)
            seconds = time.perf_counter() - started
        if read != work.records:
            raise GapError(f"{read} of {work.records} records were read")
        yield {
            "w": f"far-{round_trip_ms:g}",
            "peer": "rhumbline-records",
            "round_trip_ms": round_trip_ms,
            "records": read,
            "seconds": round(seconds, 2),
            "rec_s": round(read / seconds),
            "MB_s": round(read * work.size / seconds / 1e6, 2),
            "Mbit_s": round(8 * read * work.size / seconds / 1e6),
        }


def _client(servers: RegionProcesses, region: str) -> Client:
    return Client(servers.metadata, namespace=NAMESPACE, region=region)


async def _write(client: Client, work: FarWorkload) -> None:
    policy = StreamPolicy(quorum=Quorum(3, 3, 2, 1), flush=FlushPolicy(period_ms=2))
    await ensure_namespace(client, policy)
    await client.namespace().create_stream(_STREAM, policy)
    payloads = [os.urandom(work.size)] * BATCH
    async with client.writer(_STREAM) as writer:
        for _ in range(work.records // BATCH):
            writer.append_many(payloads)
            await writer.room()
        await writer.flush()


async def _read(client: Client, records: int) -> int:
    read = 0
    async with client.reader(_STREAM) as reader:
        async for batch in reader.batches():
            read += len(batch.records())
            if read >= records:
                break
    return read
