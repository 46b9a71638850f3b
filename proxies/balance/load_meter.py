"""Measures the load of a write proxy: the rates of its streams, its CPU, its event loop's delay.

The rates are averages over about ``_AVERAGE_S``. The average of a stream that was just taken over
is corrected for the short time, so that a stream shows its load at its new owner at once.
"""

import asyncio
from collections.abc import Callable, Sequence
from math import exp
from typing import NamedTuple

from ..proxy_stores import ProxyStore
from ..routing import stream_key
from ..write.owned_stream import StreamInService
from .load_report import SET_BYTES, BusyStream

CpuSeconds = Callable[[], float]
"""Returns the CPU time of this process in seconds."""

_AVERAGE_S = 15.0
_PROBE_S = 0.25


class _Average:
    """An exponential average of a rate, corrected for the short time since it began."""

    __slots__ = ("_value", "_weight")

    def __init__(self) -> None:
        self._value = 0.0
        self._weight = 0.0

    def add(self, rate: float, seconds: float) -> float:
        """Add the rate during the last ``seconds``, and return the average."""
        share = 1.0 - exp(-seconds / _AVERAGE_S)
        self._value += share * (rate - self._value)
        self._weight += share * (1.0 - self._weight)
        return self._value / self._weight


class _StreamRates:
    """The counters of a stream at the last sample, and its average rates."""

    __slots__ = ("at", "byte_count", "bytes_per_s", "load", "record_count", "records_per_s",
                 "set_count", "taken_at")  # fmt: skip

    def __init__(self, taken_at: float) -> None:
        self.taken_at = self.at = taken_at
        self.record_count = self.set_count = self.byte_count = 0
        self.load, self.records_per_s, self.bytes_per_s = _Average(), _Average(), _Average()


class StreamLoad(NamedTuple):
    """The measured load of a stream."""

    store: ProxyStore
    hot: BusyStream
    records_per_s: float
    bytes_per_s: float


class ProcessLoad(NamedTuple):
    """The measured load of the process."""

    cpu_percent: int
    queue_ms: int


class LoadMeter:
    """The averages of one write proxy; ``sample`` is called once in an interval."""

    def __init__(self, cpu_seconds: CpuSeconds) -> None:
        self._loop = asyncio.get_running_loop()
        self._cpu_seconds = cpu_seconds
        self._sampled_at = self._loop.time()
        self._cpu_s = cpu_seconds()
        self._queue_s = 0.0
        self._rates: dict[str, _StreamRates] = {}

    async def probe_queue(self) -> None:
        """Measure continuously how late the event loop runs a timer."""
        while True:
            due = self._loop.time() + _PROBE_S
            await asyncio.sleep(_PROBE_S)
            self._queue_s = max(self._queue_s, self._loop.time() - due)

    def sample_process(self) -> ProcessLoad:
        """Return the CPU share and the longest delay since the last call."""
        now, cpu_s = self._loop.time(), self._cpu_seconds()
        seconds = max(now - self._sampled_at, 1e-3)
        found = ProcessLoad(
            round(100 * max(0.0, cpu_s - self._cpu_s) / seconds), round(1000 * self._queue_s)
        )
        self._sampled_at, self._cpu_s, self._queue_s = now, cpu_s, 0.0
        return found

    def sample_streams(self, served: Sequence[StreamInService]) -> list[StreamLoad]:
        """Return the average load of each stream that is served now."""
        now = self._loop.time()
        rates: dict[str, _StreamRates] = {}
        found = []
        for counts in served:
            key = stream_key(counts.namespace, counts.name)
            known = self._rates.get(key)
            if known is None or known.taken_at != counts.taken_at:
                known = _StreamRates(counts.taken_at)
            rates[key] = known
            found.append(self._sample(key, known, counts, now))
        self._rates = rates
        return found

    def _sample(
        self, key: str, known: _StreamRates, counts: StreamInService, now: float
    ) -> StreamLoad:
        seconds = max(now - known.at, 1e-3)
        records = (counts.served.record_count - known.record_count) / seconds
        sets = (counts.served.set_count - known.set_count) / seconds
        size = (counts.served.byte_count - known.byte_count) / seconds
        known.at = now
        known.record_count, known.set_count = counts.served.record_count, counts.served.set_count
        known.byte_count = counts.served.byte_count
        load = known.load.add(sets + size / SET_BYTES, seconds)
        held_ms = int(1000 * (now - counts.taken_at))
        return StreamLoad(
            counts.store,
            BusyStream(key, load, held_ms),
            known.records_per_s.add(records, seconds),
            known.bytes_per_s.add(size, seconds),
        )
