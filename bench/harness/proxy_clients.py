"""A process with many producers or readers over one client, for ``bench proxy``.

The process reads its settings as one line of JSON from standard input and prints ``ready``. It then
answers each further input line with its metrics since the previous line, as one line of JSON.
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

from ...client.connect import connect
from ...client.system_runtime import run
from ...core.log.api.log_client import LogClient
from ...core.log.api.log_writer import LogWriter
from ...core.log.write.batch import AppendMany
from ...core.protocol.start import LATEST
from ...core.runtime.histogram import Histogram
from ...core.runtime.tasks import Tasks, run_all
from ...security.settings import TlsSettings
from ..proxies.proxy_work import Kind

_OPENED_AT_ONCE = 100


DUE = struct.Struct(">d")
"""The due time at the start of each record; all processes of a machine share the clock."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings of a client process. ``streams`` has one stream name per client."""

    kind: Kind
    uri: str
    namespace: str
    streams: list[str]
    size: int
    rate: float
    batch: int
    window: int
    tls: dict[str, Any] | None = None
    """The fields of TlsSettings; None: no TLS."""
    token: str | None = None
    """The token by which the clients identify themselves; None: none."""

    def encode(self) -> bytes:
        """Encode as JSON, without a newline."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Decode the output of ``encode``."""
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True)
class ClientMetrics:
    """The metrics of a process since the previous request."""

    latencies: list[tuple[int, int]]
    max_seconds: float
    records: int
    cpu_s: float
    gap_s: float
    """Longest time without an acknowledgement or delivery."""
    failure: str

    def encode(self) -> bytes:
        """Encode as JSON, without a newline."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Decode the output of ``encode``."""
        metrics = cls(**json.loads(line))
        pairs = [(index, count) for index, count in metrics.latencies]  # JSON has lists
        return replace(metrics, latencies=pairs)


class ClientMeter:
    """Collects the metrics since the previous ``take``."""

    def __init__(self) -> None:
        self.latencies = Histogram()
        self.records = 0
        self.failure = ""
        self._cpu_s = _cpu_s()
        self._gap_s = 0.0
        self._last_at = time.perf_counter()

    def record(self, since: float, count: int = 1) -> None:
        """Record that ``count`` records were acknowledged or delivered now."""
        now = time.perf_counter()
        self.latencies.add(now - since, count)
        self.records += count
        if now - self._last_at > self._gap_s:
            self._gap_s = now - self._last_at
        self._last_at = now

    def fail(self, error: BaseException) -> None:
        """Keep the first failure of a client, which invalidates the benchmark."""
        self.failure = self.failure or repr(error)

    def take(self) -> ClientMetrics:
        """Return the metrics and reset them."""
        before, self._cpu_s = self._cpu_s, _cpu_s()
        metrics = ClientMetrics(
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
        return metrics


def main() -> None:
    """Run the clients until standard input is closed."""
    settings = ClientSettings.decode(sys.stdin.buffer.readline())
    run(_serve(settings))


async def _serve(settings: ClientSettings) -> None:
    meter = ClientMeter()
    tasks = Tasks(on_failure=meter.fail)
    tls = None if settings.tls is None else TlsSettings(**settings.tls)
    client = connect(settings.uri, namespace=settings.namespace, tls=tls, token=settings.token)
    async with client:
        opening = _clients(settings, client, meter)
        while opening:
            batch, opening = opening[:_OPENED_AT_ONCE], opening[_OPENED_AT_ONCE:]
            for work in await run_all(batch, "open"):
                tasks.spawn(work, "client")
        _write_line(b"ready")
        while await asyncio.to_thread(sys.stdin.buffer.readline):
            _write_line(meter.take().encode())
        await tasks.aclose()


def _write_line(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# --- clients --------------------------------------------------------------------------------------

_Work = Coroutine[Any, Any, None]


def _clients(
    settings: ClientSettings, client: LogClient, meter: ClientMeter
) -> list[Coroutine[Any, Any, _Work]]:
    each = settings.rate / len(settings.streams)
    opened: list[Coroutine[Any, Any, _Work]] = []
    for number, stream in enumerate(settings.streams):
        if settings.kind == "batching":
            opened.append(_batching(settings, client, stream, meter))
        elif settings.kind == "awaiting":
            phase = number / len(settings.streams)
            opened.append(_awaiting(settings, client, stream, meter, each, phase))
        else:
            opened.append(_reading(client, stream, meter))
    return opened


async def _open_writer(client: LogClient, stream: str) -> LogWriter:
    writer = await client.namespace().open_writer(stream)
    await writer.append(b"first")  # makes the proxy claim the stream
    return writer


async def _batching(
    settings: ClientSettings, client: LogClient, stream: str, meter: ClientMeter
) -> _Work:
    writer = await _open_writer(client, stream)
    return _send_batches(
        writer, [os.urandom(settings.size)] * settings.batch, settings.window, meter
    )


async def _send_batches(
    writer: LogWriter, payloads: list[bytes], window: int, meter: ClientMeter
) -> None:
    clock, count = time.perf_counter, len(payloads)
    pending: deque[tuple[AppendMany, float]] = deque()
    while True:
        while (len(pending) + 1) * count <= window:
            pending.append((writer.append_many(payloads), clock()))
        ticket, sent_at = pending.popleft()
        await ticket
        meter.record(sent_at, count)


async def _awaiting(
    settings: ClientSettings,
    client: LogClient,
    stream: str,
    meter: ClientMeter,
    rate: float,
    phase: float,
) -> _Work:
    writer = await _open_writer(client, stream)
    payload = os.urandom(settings.size)
    if rate:
        return _send_when_due(writer, payload, 1 / rate, phase, meter)
    return _send_each(writer, payload, meter)


async def _send_each(writer: LogWriter, payload: bytes, meter: ClientMeter) -> None:
    while True:
        sent_at = time.perf_counter()
        await writer.append(payload)
        meter.record(sent_at)


async def _send_when_due(
    writer: LogWriter, payload: bytes, period_s: float, phase: float, meter: ClientMeter
) -> None:
    clock = time.perf_counter
    due = clock() + period_s * phase
    while True:
        now = clock()
        if now < due:
            await asyncio.sleep(due - now)
        await writer.append(payload)
        meter.record(due)
        due += period_s


async def _reading(client: LogClient, stream: str, meter: ClientMeter) -> _Work:
    reader = await client.namespace().open_reader(stream, LATEST)

    async def read() -> None:
        async for batch in reader.batches():
            for payload in batch.payloads():
                meter.record(DUE.unpack_from(payload)[0])

    return read()
