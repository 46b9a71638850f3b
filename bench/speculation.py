"""The speculation benchmark: reads while the nearest replica is slow or paused.

Each fault is measured with and without speculative requests to further replicas. An open loop reads
single entries from the first region, with latencies measured from the due times. A new client for
each row first learns the usual latencies; the measurement starts with the fault.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from ..client.connect import Client
from ..core.ledger.config import LedgerConfig
from ..core.ledger.read.ledger_reader import LedgerReader
from ..core.protocol.errors import RhumblineError
from ..core.protocol.quorum import Quorum
from ..core.runtime.histogram import Histogram
from ..core.runtime.tasks import Tasks
from ..regions.region_reads import ReadSettings
from .harness.load import NAMESPACE, latencies
from .harness.open_loop import OpenLoop
from .harness.region_processes import RegionProcesses

QUORUM = Quorum(3, 3, 2, 2)
FAULTS = ("none", "slow", "stopped")
_LEARN_SECONDS_MAX = 2.0
_DRAIN_SECONDS_MAX = 60
_SETTLE_SECONDS = 1.0  # the acknowledgement needs two copies; wait for the third


@dataclass(frozen=True, slots=True)
class SpeculationWorkload:
    """The reads to perform, and the distance of the other regions."""

    round_trip_ms: float
    slow_ms: float
    entries: int
    size: int
    rate: int
    seconds: float


async def measure_speculation(
    servers: RegionProcesses, work: SpeculationWorkload
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row per fault, with and without speculation. Raises the errors of reads."""
    servers.set_round_trip(0)
    ledger_id = await _write(servers, work)
    servers.set_round_trip(work.round_trip_ms)
    for fault in FAULTS:
        for settings in (ReadSettings(), ReadSettings(tries_max=1)):
            yield await _measure(servers, work, ledger_id, fault, settings)


async def _write(servers: RegionProcesses, work: SpeculationWorkload) -> int:
    config = LedgerConfig(
        pending_entries_max=work.entries, pending_bytes_max=2 * work.entries * work.size
    )
    client = Client(servers.metadata, namespace=NAMESPACE, region=servers.regions[0], ledger=config)
    all_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_done(entry_id: int, error: RhumblineError | None, _: tuple[str, ...]) -> None:
        if all_done.done():
            return
        if error is not None:
            all_done.set_exception(error)
        elif entry_id == work.entries - 1:
            all_done.set_result(None)

    async with client:
        writer = await client.ledgers.create(QUORUM)
        payload = os.urandom(work.size)
        for _ in range(work.entries):
            writer.add(payload, on_done)
        await all_done
        await asyncio.sleep(_SETTLE_SECONDS)
        await writer.close()
        return writer.ledger_id


async def _measure(
    servers: RegionProcesses,
    work: SpeculationWorkload,
    ledger_id: int,
    fault: str,
    settings: ReadSettings,
) -> dict[str, Any]:
    region = servers.regions[0]
    client = Client(servers.metadata, namespace=NAMESPACE, region=region, reads=settings)
    async with client:
        assert client.reads is not None
        counts = client.reads.counts
        reader = await client.ledgers.open(ledger_id)
        try:
            reads = _RandomReads(reader, work)
            await reads.run(min(work.seconds, _LEARN_SECONDS_MAX))
            before = counts.reads, counts.extra, counts.extra_refused
            with _inject(servers, work, fault):
                measured = await reads.run(work.seconds)
            asked, extra, denied = (
                now - then
                for now, then in zip(
                    (counts.reads, counts.extra, counts.extra_refused), before, strict=True
                )
            )
        finally:
            await reader.aclose()
    return {
        "w": f"local-{fault}",
        "peer": "speculation" if settings.tries_max > 1 else "none",
        "rec_s": round(measured.count / work.seconds),
        "reads": measured.count,
        **latencies(measured),
        "extra": extra,
        "extra_percent": round(100 * extra / max(1, asked), 2),
        "denied": denied,
    }


@contextmanager
def _inject(servers: RegionProcesses, work: SpeculationWorkload, fault: str) -> Iterator[None]:
    region, directory = servers.regions[0], servers.directories[0]
    if fault == "slow":
        servers.set_delay(region, directory, work.slow_ms / 2)
    elif fault == "stopped":
        os.kill(servers.pid(directory), signal.SIGSTOP)
    try:
        yield
    finally:
        if fault == "slow":
            servers.set_delay(region, directory, 0)
        elif fault == "stopped":
            os.kill(servers.pid(directory), signal.SIGCONT)


class _RandomReads:
    """Reads single random entries at a fixed rate."""

    def __init__(self, reader: LedgerReader, work: SpeculationWorkload) -> None:
        self._reader = reader
        self._work = work
        self._random = Random(work.entries)
        self._latencies = Histogram()

    async def run(self, seconds: float) -> Histogram:
        """Read for some seconds, wait for all responses and return the latencies."""
        self._latencies = Histogram()
        failures: list[BaseException] = []
        tasks = Tasks(on_failure=failures.append)
        loop = OpenLoop(self._work.rate)
        ends_at = loop.due_at(0) + seconds
        try:
            while time.perf_counter() < ends_at:
                for number in await loop.due():
                    tasks.spawn(self._read_one(loop.due_at(number)), "read")
            async with asyncio.timeout(_DRAIN_SECONDS_MAX):
                while len(tasks):  # noqa: ASYNC110 - rarely more than a few iterations
                    await asyncio.sleep(0.01)
        finally:
            await tasks.aclose()
        if failures:
            raise failures[0]
        return self._latencies

    async def _read_one(self, due_at: float) -> None:
        entry_id = self._random.randrange(self._work.entries)
        (entry,) = await self._reader.read(entry_id, entry_id)
        assert len(entry.payload) == self._work.size
        self._latencies.add(time.perf_counter() - due_at)
