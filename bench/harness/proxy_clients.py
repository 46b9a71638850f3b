"""A process of producers or readers for ``bench proxy``: one connection to the proxy, many clients.

It is told what to do by one line of JSON on standard input, says ``ready``, and from then on
answers each further line with the figures since the last one, as a line of JSON.
"""

import asyncio
import json
import os
import resource
import struct
import sys
import time
from collections import deque
from collections.abc import Coroutine
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from ...client.connect import connect_proxies
from ...client.system_runtime import run
from ...core.log.read.positioning import LATEST
from ...core.log.write.batch import AppendMany
from ...core.runtime.histogram import Histogram
from ...core.runtime.tasks import Tasks, run_all
from ...proxies.client.proxy_client import ProxyClient
from ...proxies.client.proxy_writer import ProxyWriter
from ..proxy_work import Kind

DUE = struct.Struct(">d")
"""When a record was due, at its beginning: the processes of a machine share this clock."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a process does. ``streams`` has one name for each of its clients."""

    kind: Kind
    uri: str
    namespace: str
    streams: list[str]
    size: int
    rate: float
    batch: int
    window: int

    def encode(self) -> bytes:
        """One line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Reads ``encode``."""
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True)
class Figures:
    """What a process saw since it was last asked. CPU and memory are its own."""

    latencies: list[tuple[int, int]]
    max_seconds: float
    records: int
    cpu_s: float
    gap_s: float
    """Longest time without an acknowledgement or delivery."""
    failure: str

    def encode(self) -> bytes:
        """One line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Reads ``encode``."""
        figures = cls(**json.loads(line))
        pairs = [(index, count) for index, count in figures.latencies]  # JSON has lists
        return replace(figures, latencies=pairs)


class Meter:
    """Counts since the last question."""

    def __init__(self) -> None:
        self.latencies = Histogram()
        self.records = 0
        self.failure = ""
        self._cpu_s = _cpu_s()
        self._gap_s = 0.0
        self._last_at = time.perf_counter()

    def see(self, since: float, count: int = 1) -> None:
        """Notes ``count`` records that were acknowledged or delivered now."""
        now = time.perf_counter()
        self.latencies.add(now - since, count)
        self.records += count
        if now - self._last_at > self._gap_s:
            self._gap_s = now - self._last_at
        self._last_at = now

    def fail(self, error: BaseException) -> None:
        """A client failed: a benchmark with errors is none."""
        self.failure = self.failure or repr(error)

    def take(self) -> Figures:
        """The figures; begins again."""
        before, self._cpu_s = self._cpu_s, _cpu_s()
        figures = Figures(
            self.latencies.counts(),
            self.latencies.max_seconds,
            self.records,
            self._cpu_s - before,
            max(self._gap_s, time.perf_counter() - self._last_at),
            self.failure,
        )
        self.latencies.clear()
        self.records = 0
        self._gap_s = 0.0
        return figures


def main() -> None:
    """Runs a process of clients until its standard input ends."""
    orders = Orders.decode(sys.stdin.buffer.readline())
    run(_obey(orders))


async def _obey(orders: Orders) -> None:
    meter = Meter()
    tasks = Tasks(on_failure=meter.fail)
    client = connect_proxies(orders.uri, namespace=orders.namespace)
    async with client:
        works = await run_all(_clients(orders, client, meter), "open")
        for work in works:
            tasks.spawn(work, "client")
        _say(b"ready\n")
        while await asyncio.to_thread(sys.stdin.buffer.readline):
            _say(meter.take().encode())
        await tasks.aclose()


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# --- clients --------------------------------------------------------------------------------------

_Work = Coroutine[Any, Any, None]


def _clients(orders: Orders, client: ProxyClient, meter: Meter) -> list[Coroutine[Any, Any, _Work]]:
    each = orders.rate / len(orders.streams)
    opened: list[Coroutine[Any, Any, _Work]] = []
    for number, stream in enumerate(orders.streams):
        if orders.kind == "batching":
            opened.append(_batching(orders, client, stream, meter))
        elif orders.kind == "awaiting":
            phase = number / len(orders.streams)
            opened.append(_awaiting(orders, client, stream, meter, each, phase))
        else:
            opened.append(_reading(client, stream, meter))
    return opened


async def _opened(client: ProxyClient, stream: str) -> ProxyWriter:
    writer = await client.namespace().open_writer(stream)
    await writer.append(b"first")  # now the proxy owns the stream
    return writer


async def _batching(orders: Orders, client: ProxyClient, stream: str, meter: Meter) -> _Work:
    writer = await _opened(client, stream)
    return _send_batches(writer, [os.urandom(orders.size)] * orders.batch, orders.window, meter)


async def _send_batches(
    writer: ProxyWriter, payloads: list[bytes], window: int, meter: Meter
) -> None:
    clock, count = time.perf_counter, len(payloads)
    pending: deque[tuple[AppendMany, float]] = deque()
    while True:
        while (len(pending) + 1) * count <= window:
            pending.append((writer.append_many(payloads), clock()))
        ticket, sent_at = pending.popleft()
        await ticket
        meter.see(sent_at, count)


async def _awaiting(
    orders: Orders, client: ProxyClient, stream: str, meter: Meter, rate: float, phase: float
) -> _Work:
    writer = await _opened(client, stream)
    payload = os.urandom(orders.size)
    if rate:
        return _send_when_due(writer, payload, 1 / rate, phase, meter)
    return _send_each(writer, payload, meter)


async def _send_each(writer: ProxyWriter, payload: bytes, meter: Meter) -> None:
    while True:
        sent_at = time.perf_counter()
        await writer.append(payload)
        meter.see(sent_at)


async def _send_when_due(
    writer: ProxyWriter, payload: bytes, period_s: float, phase: float, meter: Meter
) -> None:
    clock = time.perf_counter
    due = clock() + period_s * phase
    while True:
        now = clock()
        if now < due:
            await asyncio.sleep(due - now)
        await writer.append(payload)
        meter.see(due)
        due += period_s


async def _reading(client: ProxyClient, stream: str, meter: Meter) -> _Work:
    reader = await client.namespace().open_reader(stream, LATEST)

    async def read() -> None:
        async for batch in reader.batches():
            for payload in batch.payloads():
                meter.see(DUE.unpack_from(payload)[0])

    return read()
