"""Writing across regions: acknowledgement against round trip + fsync, and throughput.

The same writers measure with round trips of almost nothing (``near``), with real ones (``far``),
and while a region is cut off (``lost``). In each phase there are three ways to send: ``rate``, an
open loop of which the latency counts; ``closed``, one record outstanding in each stream; and
``window``, with at least rate x round trip outstanding.
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
from ..core.log.read.positioning import EARLIEST
from ..core.log.write.batch import Append
from ..core.log.write.stream_writer import StreamWriter
from ..core.protocol.errors import InvariantBrokenError, TooManyRequestsError
from ..core.protocol.quorum import Quorum
from ..core.runtime.histogram import Histogram
from ..core.runtime.tasks import Tasks
from ..placement.planner import Latency, plan
from ..placement.topology import Topology
from .harness.load import NAMESPACE, ensure_namespace, latencies
from .harness.region_processes import DistantProcesses

_AT_ONCE = 32
_PACER_SECONDS = 0.001
_TICKETS_MAX = 200_000
_CHECKED_MAX = 20
_WINDOW_ATTEMPTS = 4
_OVER_SECONDS_MAX = 120
_LOCAL_MS = 0.2


@dataclass(frozen=True, slots=True)
class DistantWork:
    """What is written, and across which distance."""

    name: str
    quorum: Quorum
    round_trip_ms: float
    streams: int
    size: int
    rate: int
    seconds: float
    warm_seconds: float
    loses: bool
    """Whether a region is cut off at the end."""
    request_timeout_ms: int = 5_000
    """Longer where more is outstanding than can be answered within the usual time."""


class DistantWriters:
    """The writers of one work, in the first region; they count what each stream was given."""

    def __init__(self, servers: DistantProcesses, client: Client, work: DistantWork) -> None:
        self.acks = Histogram()
        self.sent = [0] * work.streams
        self.writers: list[StreamWriter] = []
        self._servers = servers
        self._client = client
        self._work = work
        self._payload = os.urandom(work.size)
        self._is_sending = False

    async def open(self) -> None:
        """Makes the streams and their writers."""
        work, namespace = self._work, self._client.namespace()
        policy = StreamPolicy(quorum=work.quorum, flush=FlushPolicy())
        await ensure_namespace(self._client, policy)

        async def open_one(number: int) -> StreamWriter:
            await namespace.create_stream(self._name(number), policy)
            return await namespace.open_writer(self._name(number))

        numbers = iter(range(work.streams))
        while some := list(islice(numbers, _AT_ONCE)):
            self.writers += await asyncio.gather(*map(open_one, some))
        # As a process that keeps thousands of writers open does: or else the collector walks over
        # all of them now and then, for a second, and finds nothing.
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
        """Sends for a while, or for as long as ``meanwhile`` takes; (seconds, CPU seconds of
        servers and client); see ``acks``."""
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
            await asyncio.sleep(work.warm_seconds)
            self.acks.clear()
            before, started = self._servers.usage(), time.perf_counter()
            await (meanwhile() if meanwhile is not None else asyncio.sleep(work.seconds))
            seconds, after = time.perf_counter() - started, self._servers.usage()
            self._is_sending = False  # all at once: cancelling thousands takes a turn for each
            async with asyncio.timeout(_OVER_SECONDS_MAX):
                while len(tasks):  # noqa: ASYNC110 - they end with their next acknowledgement
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
        """Keeps so many records of one stream on their way."""
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
        """Appends what is due, a record to each stream in turn, timed from when it was due."""
        clock = time.perf_counter
        tickets: asyncio.Queue[tuple[Append, float]] = asyncio.Queue(_TICKETS_MAX)
        failures: list[BaseException] = []
        acks = Tasks(on_failure=failures.append)
        acks.spawn(self._take_acks(tickets), "acks")
        started, count = clock(), 0
        try:
            while self._is_sending and not failures:
                while count < int((clock() - started) * rate):
                    number = count % len(self.writers)
                    ticket = self.writers[number].append(self._payload)
                    self.sent[number] += 1
                    if tickets.full():
                        raise TooManyRequestsError(f"{rate} records/s cannot be kept up")
                    tickets.put_nowait((ticket, started + count / rate))
                    count += 1
                await asyncio.sleep(_PACER_SECONDS)
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
        """Seconds until one record in each stream, sent now, is acknowledged."""
        started = time.perf_counter()
        tickets = [writer.append(self._payload) for writer in self.writers]
        self.sent = [count + 1 for count in self.sent]
        for ticket in tickets:
            await ticket
        return time.perf_counter() - started

    async def check(self) -> int:
        """Ends some streams and reads them: each record once, none missing. Returns how many."""
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
        """Leaves the streams as a crash would."""
        gc.unfreeze()
        for writer in self.writers:
            await writer.abort()


async def measure_distant(
    servers: DistantProcesses, work: DistantWork, fsync_ms: Sequence[float]
) -> AsyncIterator[dict[str, Any]]:
    """Yields a row for each phase and way to send. Raises InvariantBrokenError if a record of a
    stream that was looked at is not there once."""
    home = servers.regions[0]
    ledger = LedgerConfig(pending_entries_max=100_000, request_timeout_ms=work.request_timeout_ms)
    client = Client(servers.metadata, namespace=NAMESPACE, region=home, ledger=ledger)
    async with client:
        writers = DistantWriters(servers, client, work)
        servers.set_round_trip(0)
        began = time.perf_counter()
        await writers.open()
        yield _opened(servers, work, time.perf_counter() - began)
        try:
            window = 1
            phases = [("near", 0.0), ("far", work.round_trip_ms)]
            if work.loses:
                phases.append(("lost", work.round_trip_ms))
            for phase, round_trip_ms in phases:
                if phase == "lost":
                    servers.cut(servers.regions[-1])
                    yield await _interruption(work, writers)
                else:
                    servers.set_round_trip(round_trip_ms)
                took = await writers.measure("rate", 1)
                row = _row(work, phase, "rate", 1, took, writers.acks)
                if phase != "near":
                    row |= _against(servers, work, row, fsync_ms)
                yield row
                took = await writers.measure("closed", 1)
                row = _row(work, phase, "closed", 1, took, writers.acks)
                yield row
                if phase == "near":
                    window = await _enough(writers, work, row["rec_s"])
                took = await writers.measure("window", window)
                yield _row(work, phase, "window", window, took, writers.acks)
            if work.loses:
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


async def _enough(writers: DistantWriters, work: DistantWork, per_second: float) -> int:
    """Records outstanding by stream so that all together are well above rate x round trip, for
    the rate that such a window reaches without round trips."""
    for _ in range(_WINDOW_ATTEMPTS):
        window = max(2, -(-int(2 * per_second * work.round_trip_ms / 1000) // work.streams))
        seconds, _ = await writers.measure("window", window)
        per_second = writers.acks.count / seconds
        if window * work.streams >= 1.5 * per_second * work.round_trip_ms / 1000:
            break
    return window


def _expected_ms(
    servers: DistantProcesses, work: DistantWork, fsync_ms: Sequence[float]
) -> Latency:
    """What ``rhumbline plan`` says of an acknowledgement in the first region."""
    regions = servers.regions
    each = len(servers.directories) // len(regions)
    far = {(a, b): work.round_trip_ms for a in regions for b in regions if a < b}
    q = work.quorum
    found = plan(
        Topology(dict.fromkeys(regions, each), far, _LOCAL_MS, fsync_ms),
        (q.ensemble_size, q.write_quorum, q.ack_quorum, q.min_regions),
    )
    return next(one for one in found.latencies if one.region == regions[0])


def _opened(servers: DistantProcesses, work: DistantWork, seconds: float) -> dict[str, Any]:
    used = servers.usage()
    return {
        "w": f"{work.name}-open",
        "peer": "rhumbline-imm",
        "streams": work.streams,
        "seconds": round(seconds, 1),
        "srv_rss": used.server_rss_mib,
        "cli_rss": used.client_rss_mib,
    }


async def _interruption(work: DistantWork, writers: DistantWriters) -> dict[str, Any]:
    return {
        "w": f"{work.name}-cut",
        "peer": "rhumbline-imm",
        "all_acknowledged_after_s": round(await writers.time_to_all_acknowledged(), 3),
        "rec_s": 0,
    }


def _row(
    work: DistantWork,
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


def _against(
    servers: DistantProcesses, work: DistantWork, row: dict[str, Any], fsync_ms: Sequence[float]
) -> dict[str, Any]:
    """The measured latency beside the bound and the plan."""
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
    """Milliseconds of so many durable writes of 4 KiB, one after the other."""
    block, found = os.urandom(4096), []
    with tempfile.NamedTemporaryFile(dir=directory, prefix="fsync-") as file:
        for _ in range(count):
            started = time.perf_counter()
            os.write(file.fileno(), block)
            os.fdatasync(file.fileno())
            found.append((time.perf_counter() - started) * 1000)
    return found
