"""Measures the current raw speed of disk and loopback, to compare benchmark results with."""

import multiprocessing
import os
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ..core.runtime.histogram import Histogram

_ROUND_TRIP_BYTES = 128


@dataclass(frozen=True, slots=True)
class RawLimit:
    """One raw measurement."""

    name: str
    size: int
    per_second: float
    megabytes_per_second: float
    p50_ms: float
    p99_ms: float
    p999_ms: float


def measure_raw_limits(directory: Path, *, seconds: float = 1.0) -> list[RawLimit]:
    """Measure appends with fdatasync (4 and 64 KiB) in ``directory``, and loopback round trips."""
    return [
        _measure_sync(directory, 4096, seconds),
        _measure_sync(directory, 65536, seconds),
        _measure_round_trips(seconds),
    ]


def _measure_sync(directory: Path, size: int, seconds: float) -> RawLimit:
    block = os.urandom(size)
    histogram = Histogram()
    with tempfile.NamedTemporaryFile(dir=directory, prefix="raw-") as file:
        descriptor = file.fileno()
        started = now = time.perf_counter()
        while now - started < seconds:
            os.write(descriptor, block)
            os.fdatasync(descriptor)
            before, now = now, time.perf_counter()
            histogram.add(now - before)
    return _limit(f"append {size // 1024} KiB + fdatasync", size, histogram, now - started)


def _measure_round_trips(seconds: float) -> RawLimit:
    with socket.create_server(("127.0.0.1", 0)) as server:
        # Use a process: threads of one interpreter hand over faster than separate peers can.
        echo = multiprocessing.get_context("fork").Process(target=_echo, args=(server,))
        echo.start()
        block = bytes(_ROUND_TRIP_BYTES)
        histogram = Histogram()
        with socket.create_connection(server.getsockname()) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            started = now = time.perf_counter()
            while now - started < seconds:
                client.sendall(block)
                client.recv(_ROUND_TRIP_BYTES, socket.MSG_WAITALL)
                before, now = now, time.perf_counter()
                histogram.add(now - before)
        echo.join()
    return _limit("loopback round trip", _ROUND_TRIP_BYTES, histogram, now - started)


def _echo(server: socket.socket) -> None:
    connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while block := connection.recv(_ROUND_TRIP_BYTES, socket.MSG_WAITALL):
            connection.sendall(block)


def _limit(name: str, size: int, histogram: Histogram, seconds: float) -> RawLimit:
    p50, p99, p999 = histogram.quantiles_ms((0.5, 0.99, 0.999))
    rate = histogram.count / seconds
    return RawLimit(name, size, rate, rate * size / 1e6, p50, p99, p999)
