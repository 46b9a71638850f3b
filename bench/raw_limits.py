"""Measures the current raw speed of disk and loopback, to compare benchmark results with."""

import multiprocessing
import os
import select
import socket
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ..core.runtime.histogram import Histogram

_ROUND_TRIP_BYTES = 128
_COPIES = 3
_COPIES_AWAITED = 2
_COPY_BYTES = 1024
_COPY_FILE_BYTES = 16 << 20


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
    """Measure appends with fdatasync (4 and 64 KiB) in ``directory``, and round trips on loopback.

    The last limit combines them, as an append without any software in between: 1 KiB goes to three
    processes, each of which writes and syncs it before it responds, and two responses are awaited.
    """
    return [
        _measure_sync(directory, 4096, seconds),
        _measure_sync(directory, 65536, seconds),
        _measure_round_trips(seconds),
        _measure_copies(directory, seconds),
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


def _measure_copies(directory: Path, seconds: float) -> RawLimit:
    histogram = Histogram()
    with ExitStack() as closing:
        waiting: dict[socket.socket, int] = {}
        for _ in range(_COPIES):
            server = closing.enter_context(socket.create_server(("127.0.0.1", 0)))
            file = closing.enter_context(tempfile.NamedTemporaryFile(dir=directory, prefix="raw-"))
            os.pwrite(file.fileno(), bytes(_COPY_FILE_BYTES), 0)
            os.fsync(file.fileno())
            storing = multiprocessing.get_context("fork").Process(
                target=_store, args=(server, file.fileno())
            )
            storing.start()
            closing.callback(storing.join)
            client = closing.enter_context(socket.create_connection(server.getsockname()))
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            waiting[client] = 0
        block = os.urandom(_COPY_BYTES)
        started = now = time.perf_counter()
        while now - started < seconds:
            for client in waiting:
                client.sendall(block)
                waiting[client] += 1
            while sum(not count for count in waiting.values()) < _COPIES_AWAITED:
                for client in select.select(list(waiting), (), ())[0]:
                    waiting[client] -= len(client.recv(_ROUND_TRIP_BYTES))
            before, now = now, time.perf_counter()
            histogram.add(now - before)
        for client in waiting:
            client.shutdown(socket.SHUT_WR)
            while client.recv(_ROUND_TRIP_BYTES):
                pass
    return _limit("3 copies of 1 KiB, 2 awaited", _COPY_BYTES, histogram, now - started)


def _store(server: socket.socket, descriptor: int) -> None:
    """Replace synced bytes of a file, as bookies do for small groups, with one byte in response."""
    connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    offset = 0
    with connection:
        while block := connection.recv(_COPY_BYTES, socket.MSG_WAITALL):
            os.pwrite(descriptor, block, offset)
            os.fdatasync(descriptor)
            connection.sendall(b"\0")
            offset = (offset + len(block)) % _COPY_FILE_BYTES


def _limit(name: str, size: int, histogram: Histogram, seconds: float) -> RawLimit:
    p50, p99, p999 = histogram.quantiles_ms((0.5, 0.99, 0.999))
    rate = histogram.count / seconds
    return RawLimit(name, size, rate, rate * size / 1e6, p50, p99, p999)
