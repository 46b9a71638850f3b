"""Runs a write workload and measures it in consecutive windows."""

import asyncio
import os
import struct
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from ...client.connect import Client
from ...core.log.namespace import create_namespace
from ...core.log.policy import StreamPolicy
from ...core.log.write.batch import Append
from ...core.log.write.stream_writer import StreamWriter
from ...core.protocol.errors import NamespaceExistsError, TooManyRequestsError
from ...core.runtime.histogram import Histogram
from ...core.runtime.tasks import Tasks
from ...telemetry.process_telemetry import TELEMETRY_OFF, Telemetry
from .bookie_processes import BookieProcesses
from .open_loop import OpenLoop
from .workload import BenchWorkload

NAMESPACE = "bench"
_CHUNK = 50  # records appended and timed together if many are outstanding
_LATENESS_SECONDS_MAX = 0.002
_SENT_AT = struct.Struct(">d")
_TICKETS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Timing:
    """The duration of the warm-up and of each measured window."""

    warmup_seconds: float
    window_seconds: float
    windows: int


class _Meter:
    """The latencies of the current window."""

    def __init__(self, viewers: Sequence[str]) -> None:
        self.acks = Histogram()
        self.deliveries = Histogram()
        self.deliveries_in = {region: Histogram() for region in viewers}

    def clear(self) -> None:
        for histogram in (self.acks, self.deliveries, *self.deliveries_in.values()):
            histogram.clear()


async def run_workload(
    workload: BenchWorkload,
    servers: BookieProcesses,
    timing: Timing,
    telemetry: Telemetry = TELEMETRY_OFF,
) -> AsyncGenerator[dict[str, Any], None]:
    """Run a workload and yield a row of results per window.

    Raises the first error of an append, because a benchmark with errors is invalid.
    """
    meter = _Meter(workload.viewers)
    failures: list[BaseException] = []
    client = servers.client(NAMESPACE, telemetry.tracer, region=workload.region)
    async with client, AsyncExitStack() as closing:
        telemetry.observe("client", client.statistics)
        writers = [w async for w in _open_writers(client, workload, closing)]
        viewers = [
            await closing.enter_async_context(servers.client(NAMESPACE, region=region))
            for region in workload.viewers
        ]
        tasks = Tasks(on_failure=failures.append)
        closing.push_async_callback(tasks.aclose)
        for _ in range(workload.readers):
            tasks.spawn(_tail(client, _stream(workload, 0), meter.deliveries), "tail")
        for viewer, deliveries in zip(viewers, meter.deliveries_in.values(), strict=True):
            tasks.spawn(_tail(viewer, _stream(workload, 0), deliveries), "tail far away")
        for work in _senders(workload, writers, meter):
            tasks.spawn(work, "sender")
        await asyncio.sleep(timing.warmup_seconds)
        for number in range(timing.windows):
            meter.clear()
            before, started = servers.usage(), time.perf_counter()
            await asyncio.sleep(timing.window_seconds)
            seconds, after = time.perf_counter() - started, servers.usage()
            if failures:
                raise failures[0]
            cpu = (
                after.server_cpu_s - before.server_cpu_s,
                after.client_cpu_s - before.client_cpu_s,
            )
            memory = (after.server_rss_mib, after.client_rss_mib)
            yield _row(workload, number, meter, seconds=seconds, cpu=cpu, memory=memory)


async def _open_writers(
    client: Client, workload: BenchWorkload, closing: AsyncExitStack
) -> AsyncIterator[StreamWriter]:
    await ensure_namespace(client, workload.policy)
    for number in range(workload.streams):
        name = _stream(workload, number)
        await client.namespace().create_stream(name, workload.policy)
        writer = await client.namespace().open_writer(name)
        closing.push_async_callback(writer.close)
        yield writer


async def ensure_namespace(client: Client, policy: StreamPolicy) -> None:
    """Create the namespace of the benchmarks if it does not exist."""
    try:
        await create_namespace(client.store, client.runtime, NAMESPACE, policy)
    except NamespaceExistsError:
        return


def _stream(workload: BenchWorkload, number: int) -> str:
    return f"{workload.name}-{workload.peer}-{number}"


# --- senders --------------------------------------------------------------------------------------


def _senders(workload: BenchWorkload, writers: list[StreamWriter], meter: _Meter) -> list[Any]:
    payload = os.urandom(workload.size)
    if workload.mode == "rate":
        return [_send_at_rate(workload, writers, payload, meter)]
    outstanding = 1 if workload.mode == "sync" else workload.window // workload.streams
    return [_send_in_window(writer, payload, outstanding, meter) for writer in writers]


async def _send_in_window(
    writer: StreamWriter, payload: bytes, outstanding: int, meter: _Meter
) -> None:
    """Append to one stream, with ``outstanding`` records in flight at any time."""
    clock = time.perf_counter
    append, record = writer.append, meter.acks.add
    chunk = min(_CHUNK, outstanding)
    pending: deque[tuple[Append, float]] = deque()
    while True:
        while (len(pending) + 1) * chunk <= outstanding:
            now = clock()
            for _ in range(chunk):
                ticket = append(payload)
            pending.append((ticket, now))
        ticket, sent_at = pending.popleft()
        await ticket
        record(clock() - sent_at, chunk)


async def _send_at_rate(
    workload: BenchWorkload, writers: list[StreamWriter], payload: bytes, meter: _Meter
) -> None:
    """Append to the streams in turn, each record when it is due.

    The latency of a record counts from its append, or from its due time if the append is more than
    2 ms late, as in the benchmarks of other systems.
    """
    clock, loop = time.perf_counter, OpenLoop(workload.rate)
    tickets: asyncio.Queue[tuple[Append, float, int]] = asyncio.Queue(_TICKETS_MAX)
    acks = Tasks()
    acks.spawn(_take_acks(tickets, meter), "acks")
    rest = payload[_SENT_AT.size :]
    try:
        while True:
            for number in await loop.due():
                due_at, since = loop.due_at(number), clock()
                if since - due_at > _LATENESS_SECONDS_MAX:
                    since = due_at
                ticket = writers[number % len(writers)].append(_SENT_AT.pack(since) + rest)
                if tickets.full():
                    raise TooManyRequestsError(
                        f"the rate of {workload.rate} records/s cannot be sustained"
                    )
                tickets.put_nowait((ticket, since, 1))
    finally:
        await acks.aclose()


async def _take_acks(tickets: "asyncio.Queue[tuple[Append, float, int]]", meter: _Meter) -> None:
    clock, record = time.perf_counter, meter.acks.add
    while True:
        ticket, since, count = await tickets.get()
        await ticket
        record(clock() - since, count)


async def _tail(client: Client, stream: str, deliveries: Histogram) -> None:
    """Measure the time from the append of each record to its delivery to a tailing reader."""
    clock, record, unpack = time.perf_counter, deliveries.add, _SENT_AT.unpack_from
    async with client.reader(stream) as reader:
        async for batch in reader.batches():
            now = clock()
            for payload in batch.payloads():
                record(now - unpack(payload)[0])


# --- results --------------------------------------------------------------------------------------


def _row(
    workload: BenchWorkload,
    number: int,
    meter: _Meter,
    *,
    seconds: float,
    cpu: tuple[float, float],
    memory: tuple[int, int],
) -> dict[str, Any]:
    """Return the row of a window, with the keys that benchmarks of other systems use."""
    count = meter.acks.count
    millions = max(count, 1) / 1e6
    row: dict[str, Any] = {
        "w": workload.name,
        "peer": workload.peer,
        "mode": workload.mode,
        "rep": number,
        "size": workload.size,
        "streams": workload.streams,
        "window": workload.window if workload.mode == "max" else workload.streams,
        "rate": workload.rate,
        "rec_s": round(count / seconds),
        "MB_s": round(count * workload.size / seconds / 1e6, 2),
        **latencies(meter.acks),
        "srv_cpu": round(cpu[0] / seconds, 2),
        "cli_cpu": round(cpu[1] / seconds, 2),
        "srv_cpu_per_M": round(cpu[0] / millions, 2),
        "cli_cpu_per_M": round(cpu[1] / millions, 2),
        "srv_rss": memory[0],
        "cli_rss": memory[1],
        "err": 0,
    }
    if workload.readers:
        delivered = meter.deliveries.count / seconds
        row["readers"] = workload.readers
        row["del_rec_s"] = round(delivered)
        row["del_MB_s"] = round(delivered * workload.size / 1e6, 2)
        row["del"] = latencies(meter.deliveries)
    for region, deliveries in meter.deliveries_in.items():
        row[f"del_{region}"] = latencies(deliveries)
    return row


def latencies(histogram: Histogram) -> dict[str, float]:
    """Return the p50, p99, p99.9 and maximum in ms."""
    p50, p99, p999 = histogram.quantiles_ms((0.5, 0.99, 0.999))
    return {
        "p50_ms": round(p50, 3),
        "p99_ms": round(p99, 3),
        "p999_ms": round(p999, 3),
        "max_ms": round(histogram.max_seconds * 1000, 3),
    }
