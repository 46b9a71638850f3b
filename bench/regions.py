"""The benchmark of writing across regions: acknowledgement latency and throughput.

The latency is compared with the round trip plus fsync. The same writers are measured without added
delay (phase ``near``), with the configured round trips (``far``), and while a region is cut off
(``lost``). Each phase uses three modes of sending: ``rate``, an open loop for latency; ``closed``,
one outstanding record per stream; ``window``, with at least rate x round trip outstanding records.
"""

import asyncio
import gc
import os
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ..client.connect import Client
from ..core.ledger.config import LedgerConfig
from ..core.log.policy import FlushPolicy, StreamPolicy
from ..core.log.write.batch import Append
from ..core.log.write.stream_writer import StreamWriter
from ..core.protocol.errors import InvariantBrokenError, TooManyRequestsError
from ..core.protocol.quorum import Quorum
from ..core.protocol.start import EARLIEST
from ..core.runtime.histogram import Histogram
from ..core.runtime.tasks import Tasks
from ..placement.planner import Latency, plan
from ..placement.topology import Topology
from .harness.load import NAMESPACE, ensure_namespace, latencies
from .harness.open_loop import OpenLoop
from .harness.region_processes import RegionProcesses

_CONCURRENCY = 32
_TICKETS_MAX = 200_000
_CHECKED_MAX = 20
_WINDOW_ATTEMPTS = 4
_DRAIN_SECONDS_MAX = 120
_LOCAL_MS = 0.2


@dataclass(frozen=True, slots=True)
class RegionWorkload:
    """The records to write, and the distance between the regions."""

    name: str
    quorum: Quorum
    round_trip_ms: float
    streams: int
    size: int
    rate: int
    seconds: float
    warmup_seconds: float
    cuts_region: bool
    """True if a region is cut off in a last phase."""
    request_timeout_ms: int = 5_000
    """Request timeout; larger for windows that need longer than the default to be acknowledged."""


class RegionWriters:
    """The writers of a workload, in the first region, with the number of records per stream."""

    def __init__(self, servers: RegionProcesses, client: Client, work: RegionWorkload) -> None:
        self.acks = Histogram()
        self.sent = [0] * work.streams
        self.writers: list[StreamWriter] = []
        self._servers = servers
        self._client = client
        self._work = work
        self._payload = os.urandom(work.size)
        self._is_sending = False

    async def open(self) -> None:
        """Create the streams and open their writers."""
        work, namespace = self._work, self._client.namespace()
        policy = StreamPolicy(quorum=work.quorum, flush=FlushPolicy())
        await ensure_namespace(self._client, policy)

        async def open_one(number: int) -> StreamWriter:
            await namespace.create_stream(self._name(number), policy)
            return await namespace.open_writer(self._name(number))

        numbers = iter(range(work.streams))
        while batch := list(islice(numbers, _CONCURRENCY)):
            self.writers += await asyncio.gather(*map(open_one, batch))
        # A process with thousands of open writers does this, because otherwise the garbage
        # collector regularly spends a second on traversing all of them and frees nothing.
        gc.collect()
        gc.freeze()

    def _name(self, number: int) -> str:
        return f"{self._work.name}-{number:06d}"

    async def measure(
        self,
        mode: str,
        window: int,
        meanwhile: Callable[[], Awaitable[object]] | None = None,
    ) -> tuple[float, tuple[float, float]]:
        """Send for the configured time, or until ``meanwhile`` has ended.

        Returns the seconds, and the CPU seconds of servers and client. The latencies are in
        ``acks``.
        """
        work = self._work
        failures: list[BaseException] = []
        tasks = Tasks(on_failure=failures.append)
        senders: Sequence[Coroutine[Any, Any, None]]
        if mode == "rate":
            senders = [self._send_at_rate(work.rate)]
        else:
            senders = [self._send_in_window(number, window) for number in range(work.streams)]
        self._is_sending = True
        try:
            for sender in senders:
                tasks.spawn(sender, "sender")
            await asyncio.sleep(work.warmup_seconds)
            self.acks.clear()
            before, started = self._servers.usage(), time.perf_counter()
            await (meanwhile() if meanwhile is not None else asyncio.sleep(work.seconds))
            seconds, after = time.perf_counter() - started, self._servers.usage()
            self._is_sending = False  # cheaper than to cancel thousands of tasks
            async with asyncio.timeout(_DRAIN_SECONDS_MAX):
                while len(tasks):  # noqa: ASYNC110 - they end at their next acknowledgement
                    await asyncio.sleep(0.01)
        finally:
            await tasks.aclose()
        if failures:
            raise failures[0]
        for writer in self.writers:
            await writer.flush()
        cpu = after.server_cpu_s - before.server_cpu_s, after.client_cpu_s - before.client_cpu_s
        return seconds, cpu

    async def _send_in_window(self, number: int, window: int) -> None:
        """Append to one stream, with ``window`` records in flight at any time."""
        clock, record = time.perf_counter, self.acks.add
        append, payload, sent = self.writers[number].append, self._payload, self.sent
        pending: deque[tuple[Append, float]] = deque()
        while self._is_sending:
            while len(pending) < window:
                pending.append((append(payload), clock()))
                sent[number] += 1
            ticket, sent_at = pending.popleft()
            await ticket
            if self._is_sending:
                record(clock() - sent_at)

    async def _send_at_rate(self, rate: int) -> None:
        """Append records when they are due, to each stream in turn; measure from the due times."""
        loop = OpenLoop(rate)
        tickets: asyncio.Queue[tuple[Append, float]] = asyncio.Queue(_TICKETS_MAX)
        failures: list[BaseException] = []
        acks = Tasks(on_failure=failures.append)
        acks.spawn(self._take_acks(tickets), "acks")
        try:
            while self._is_sending and not failures:
                for number in await loop.due():
                    stream = number % len(self.writers)
                    ticket = self.writers[stream].append(self._payload)
                    self.sent[stream] += 1
                    if tickets.full():
                        raise TooManyRequestsError(
                            f"the rate of {rate} records/s cannot be sustained"
                        )
                    tickets.put_nowait((ticket, loop.due_at(number)))
            if failures:
                raise failures[0]
        finally:
            await acks.aclose()

    async def _take_acks(self, tickets: "asyncio.Queue[tuple[Append, float]]") -> None:
        clock, record = time.perf_counter, self.acks.add
        while True:
            ticket, due_at = await tickets.get()
            await ticket
            if self._is_sending:
                record(clock() - due_at)

    async def time_to_all_acknowledged(self) -> float:
        """Append one record to each stream; return the seconds until all are acknowledged."""
        started = time.perf_counter()
        tickets = [writer.append(self._payload) for writer in self.writers]
        self.sent = [count + 1 for count in self.sent]
        for ticket in tickets:
            await ticket
        return time.perf_counter() - started

    async def check(self) -> int:
        """End some streams and read them back; return the number of records.

        Raises InvariantBrokenError unless each acknowledged record is there exactly once.
        """
        numbers = range(0, self._work.streams, -(-self._work.streams // _CHECKED_MAX))
        records = 0
        for number in numbers:
            await self.writers[number].end_stream()
            reader = await self._client.namespace().open_reader(self._name(number), EARLIEST)
            found = 0
            try:
                while (batch := await reader.next_batch()) is not None:
                    found += sum(1 for payload in batch.payloads() if payload == self._payload)
            finally:
                await reader.aclose()
            if found != self.sent[number]:
                raise InvariantBrokenError(
                    f"{self._name(number)}: {self.sent[number]} records acknowledged, {found} read"
                )
            records += found
        return records

    async def abort(self) -> None:
        """Abort all writers, which leaves the streams as a crash would."""
        gc.unfreeze()
        for writer in self.writers:
            await writer.abort()


async def measure_regions(
    servers: RegionProcesses, work: RegionWorkload, fsync_ms: Sequence[float]
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row per phase and mode of sending.

    Raises InvariantBrokenError if a record of a checked stream is missing or duplicated.
    """
    home = servers.regions[0]
    ledger = LedgerConfig(pending_entries_max=100_000, request_timeout_ms=work.request_timeout_ms)
    client = Client(servers.metadata, namespace=NAMESPACE, region=home, ledger=ledger)
    async with client:
        writers = RegionWriters(servers, client, work)
        servers.set_round_trip(0)
        started = time.perf_counter()
        await writers.open()
        yield _open_row(servers, work, time.perf_counter() - started)
        try:
            window = 1
            phases = [("near", 0.0), ("far", work.round_trip_ms)]
            if work.cuts_region:
                phases.append(("lost", work.round_trip_ms))
            for phase, round_trip_ms in phases:
                if phase == "lost":
                    servers.cut(servers.regions[-1])
                    yield await _interruption_row(work, writers)
                else:
                    servers.set_round_trip(round_trip_ms)
                took = await writers.measure("rate", 1)
                row = _row(work, phase, "rate", 1, took, writers.acks)
                if phase != "near":
                    row |= _comparison(servers, work, row, fsync_ms)
                yield row
                took = await writers.measure("closed", 1)
                row = _row(work, phase, "closed", 1, took, writers.acks)
                yield row
                if phase == "near":
                    window = await _choose_window(writers, work, row["rec_s"])
                took = await writers.measure("window", window)
                yield _row(work, phase, "window", window, took, writers.acks)
            if work.cuts_region:
                servers.heal(servers.regions[-1])
            servers.set_round_trip(0)
            yield {
                "w": f"{work.name}-read-back",
                "peer": "rhumbline-imm",
                "records": await writers.check(),
                "rec_s": 0,
            }
        finally:
            await writers.abort()


async def _choose_window(writers: RegionWriters, work: RegionWorkload, per_second: float) -> int:
    """Return a window per stream whose total is well above rate x round trip.

    The rate is the one that such a window reaches without delay between regions.
    """
    for _ in range(_WINDOW_ATTEMPTS):
        window = max(2, -(-int(2 * per_second * work.round_trip_ms / 1000) // work.streams))
        seconds, _ = await writers.measure("window", window)
        per_second = writers.acks.count / seconds
        if window * work.streams >= 1.5 * per_second * work.round_trip_ms / 1000:
            break
    return window


def _expected_ms(
    servers: RegionProcesses, work: RegionWorkload, fsync_ms: Sequence[float]
) -> Latency:
    """Return the latency that ``rhumbline plan`` predicts for appends in the first region."""
    regions = servers.regions
    each = len(servers.directories) // len(regions)
    far = {(a, b): work.round_trip_ms for a in regions for b in regions if a < b}
    q = work.quorum
    found = plan(
        Topology(dict.fromkeys(regions, each), far, _LOCAL_MS, fsync_ms),
        (q.ensemble_size, q.write_quorum, q.ack_quorum, q.min_regions),
    )
    return next(latency for latency in found.latencies if latency.region == regions[0])


def _open_row(servers: RegionProcesses, work: RegionWorkload, seconds: float) -> dict[str, Any]:
    used = servers.usage()
    return {
        "w": f"{work.name}-open",
        "peer": "rhumbline-imm",
        "streams": work.streams,
        "seconds": round(seconds, 1),
        "srv_rss": used.server_rss_mib,
        "cli_rss": used.client_rss_mib,
    }


async def _interruption_row(work: RegionWorkload, writers: RegionWriters) -> dict[str, Any]:
    return {
        "w": f"{work.name}-cut",
        "peer": "rhumbline-imm",
        "all_acknowledged_after_s": round(await writers.time_to_all_acknowledged(), 3),
        "rec_s": 0,
    }


def _row(
    work: RegionWorkload,
    phase: str,
    mode: str,
    window: int,
    took: tuple[float, tuple[float, float]],
    acks: Histogram,
) -> dict[str, Any]:
    seconds, cpu = took
    millions = max(acks.count, 1) / 1e6
    return {
        "w": f"{work.name}-{phase}-{mode}",
        "peer": "rhumbline-imm",
        "quorum": str(work.quorum),
        "streams": work.streams,
        "size": work.size,
        "window": work.streams * window,
        "rate": work.rate if mode == "rate" else 0,
        "rec_s": round(acks.count / seconds),
        "MB_s": round(acks.count * work.size / seconds / 1e6, 2),
        **latencies(acks),
        "srv_cpu_per_M": round(cpu[0] / millions, 2),
        "cli_cpu_per_M": round(cpu[1] / millions, 2),
    }


def _comparison(
    servers: RegionProcesses, work: RegionWorkload, row: dict[str, Any], fsync_ms: Sequence[float]
) -> dict[str, Any]:
    """Return the columns that compare the measured latency with the bound and the plan."""
    expected = _expected_ms(servers, work, fsync_ms)
    bound_ms = work.round_trip_ms + sorted(fsync_ms)[len(fsync_ms) // 2]
    return {
        "bound_ms": round(bound_ms, 3),
        "of_bound": round(row["p50_ms"] / bound_ms, 3),
        "plan_p50_ms": round(expected.p50_ms, 3),
        "plan_p99_ms": round(expected.p99_ms, 3),
        "of_plan_p50": round(row["p50_ms"] / expected.p50_ms, 3),
        "of_plan_p99": round(row["p99_ms"] / expected.p99_ms, 3),
    }


def fsync_samples(directory: Path, count: int) -> list[float]:
    """Return the durations in ms of ``count`` sequential durable writes of 4 KiB."""
    block, durations_ms = os.urandom(4096), []
    with tempfile.NamedTemporaryFile(dir=directory, prefix="fsync-") as file:
        for _ in range(count):
            started = time.perf_counter()
            os.write(file.fileno(), block)
            os.fdatasync(file.fileno())
            durations_ms.append((time.perf_counter() - started) * 1000)
    return durations_ms
