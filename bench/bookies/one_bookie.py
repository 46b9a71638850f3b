"""The benchmark of one bookie process: adds and their disk writes, reads, restarts, memory.

Rows are named after the part that makes them: ``adds``, ``compacting`` (adds while the compactor
keeps up), ``reads`` and ``restart``.
"""

import asyncio
import json
import os
import random
import signal
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from ...client.connect import Client
from ...core.protocol.errors import UnavailableError
from ...core.protocol.ledger_metadata import DigestType
from ...core.protocol.quorum import Quorum
from ...core.wire import v2
from ...core.wire.entry import ENTRY_HEADER_BYTES, EntryDigest, encode_entry, master_key
from ...server.bookie_host import status_address
from ..harness.bookie_processes import REGION, BookieProcesses, anonymous_bytes, written_bytes
from ..harness.disk_usage import disk_bytes
from ..harness.raw_connection import BenchConnection, BenchRequest, until

SIZES = (128, 1024, 16 * 1024, 128 * 1024)
COMPACTING = {"sealed_logs_kept": "0", "log_file_bytes": str(32 << 20), "maintenance_ms": "200ms"}
"""Bookie settings with which the compactor rewrites all data soon."""

_LEDGERS = 16
_WINDOW_BYTES = 6 << 20
_WINDOW_MAX = 2_000
_READ_WINDOW = 256
_BATCH = 100
_BATCH_BYTES = 1 << 20
_CONCURRENT_BATCHES = 4
_COMPACTION_SECONDS_MAX = 600
_CONNECT_SECONDS_MAX = 30
_MIB = 1 << 20

Rows = AsyncIterator[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class BookieLoad:
    """The size of the benchmark: seconds per measurement; number and size of entries to read."""

    seconds: float
    entry_count: int
    entry_size: int


class OneBookie:
    """A bookie process with ledgers that only it stores, and a connection to it.

    Created by ``one_bookie``.
    """

    def __init__(self, servers: BookieProcesses, client: Client, ledgers: list[int]) -> None:
        self._servers = servers
        self._client = client
        self._directory = servers.directories[0]
        self._ledgers = ledgers
        self._lasts = dict.fromkeys(ledgers, -1)
        self._digest = EntryDigest(DigestType.CRC32C, b"")
        self._key = master_key(b"")
        self._connection: BenchConnection | None = None

    @property
    def pid(self) -> int:
        """The id of the current process."""
        return self._servers.pid(self._directory)

    async def connect(self) -> BenchConnection:
        """Open a connection to the current process, after closing the previous connection."""
        self.disconnect()
        deadline = time.perf_counter() + _CONNECT_SECONDS_MAX
        while True:
            try:
                (info,) = await self._client.directory.everything()
                address = (await self._client.directory.registration(info.bookie)).address
                self._connection = await BenchConnection.connect(address.host, address.port)
                return self._connection
            except (OSError, ValueError, UnavailableError):  # not registered again yet
                if time.perf_counter() > deadline:
                    raise
            await asyncio.sleep(0.05)

    def disconnect(self) -> None:
        """Close the connection. Safe to repeat."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def statistics(self) -> dict[str, Any]:
        """Return the statistics that the bookie reports."""
        (info,) = await self._client.directory.snapshot()
        address = await status_address(self._client.store, info.bookie)
        assert address is not None
        url = "http://{}:{}/stat".format(*address)

        def get() -> Any:  # noqa: ANN401 - JSON
            with urllib.request.urlopen(url, timeout=10) as response:
                return json.load(response)

        statistics = await asyncio.to_thread(get)
        assert isinstance(statistics, dict)
        return statistics

    # --- adds -------------------------------------------------------------------------------------

    def _next_add(self, payload: bytes, number: int) -> BenchRequest:
        ledger_id = self._ledgers[number % len(self._ledgers)]
        entry_id = self._lasts[ledger_id] = self._lasts[ledger_id] + 1
        entry = encode_entry(self._digest, ledger_id, entry_id, entry_id - 1, 0, payload)
        return (ledger_id, entry_id), v2.encode_add(self._key, entry)

    async def add_for(self, name: str, size: int, seconds: float) -> dict[str, Any]:
        """Measure adds of one size at full speed, with their cost in CPU time and written bytes."""
        connection = await self.connect()
        payload = os.urandom(size)
        window = max(16, min(_WINDOW_MAX, _WINDOW_BYTES // size))
        before, usage = await self._bytes_written(), self._servers.usage()
        took_s = await connection.run(until(seconds, lambda n: self._next_add(payload, n)), window)
        anonymous = anonymous_bytes(self.pid)
        used = self._servers.usage()
        sorted_s = await self._await_compaction()
        count = connection.latencies.count
        acknowledged = count * (size + ENTRY_HEADER_BYTES + self._digest.size)
        added = [now - then for now, then in zip(await self._bytes_written(), before, strict=True)]
        p50, p99, p999 = connection.latencies.quantiles_ms((0.5, 0.99, 0.999))
        return {
            "w": f"{name}-{_size_name(size)}",
            "peer": "rhumbline-bookie",
            "mode": "max",
            "size": size,
            "window": window,
            "streams": len(self._ledgers),
            "rec_s": round(count / took_s),
            "MB_s": round(count * size / took_s / 1e6, 2),
            "p50_ms": round(p50, 3),
            "p99_ms": round(p99, 3),
            "p999_ms": round(p999, 3),
            "log_per_byte": round(added[0] / acknowledged, 3),
            "sorted_per_byte": round(added[1] / acknowledged, 3),
            "disk_per_byte": round(added[2] / acknowledged, 3),
            "sorted_after_s": round(sorted_s, 2),
            "anon_mib": anonymous // _MIB,
            "srv_cpu_per_M": round((used.server_cpu_s - usage.server_cpu_s) / count * 1e6, 2),
            "cli_cpu_per_M": round((used.client_cpu_s - usage.client_cpu_s) / count * 1e6, 2),
            "srv_rss": used.server_rss_mib,
        }

    async def _bytes_written(self) -> tuple[int, int, int]:
        """Return the bytes written so far: to the log, to sorted files, to disk (kernel count)."""
        statistics = await self.statistics()
        return statistics["log_bytes"], statistics["sorted_bytes"], written_bytes(self.pid)

    async def _await_compaction(self) -> float:
        """Wait until the compactor has caught up; return how many seconds that took."""
        started = time.perf_counter()
        kept = self._servers.sealed_logs_kept
        while (sealed_logs := (await self.statistics())["sealed_logs"]) > kept:
            if time.perf_counter() - started > _COMPACTION_SECONDS_MAX:
                raise UnavailableError(
                    f"compaction not finished after {_COMPACTION_SECONDS_MAX} s: "
                    f"{sealed_logs} sealed logs are left"
                )
            await asyncio.sleep(0.05)
        return time.perf_counter() - started

    async def fill(self, load: BookieLoad) -> None:
        """Add ``entry_count`` entries."""
        connection = await self.connect()
        payload = os.urandom(load.entry_size)
        window = max(16, min(_WINDOW_MAX, _WINDOW_BYTES // load.entry_size))
        await connection.run((self._next_add(payload, n) for n in range(load.entry_count)), window)

    # --- reads ------------------------------------------------------------------------------------

    async def read_at_random(self, seconds: float) -> dict[str, Any]:
        """Measure reads of single entries at random."""
        rng = random.Random(1)

        def make(_: int) -> BenchRequest:
            ledger_id = rng.choice(self._ledgers)
            entry_id = rng.randrange(self._lasts[ledger_id] + 1)
            return (ledger_id, entry_id), v2.encode_read(ledger_id, entry_id)

        return await self._read("reads-random", until(seconds, make), _READ_WINDOW)

    async def read_in_order(self, seconds: float) -> dict[str, Any]:
        """Measure batch reads of ledger after ledger, each from its beginning."""

        def requests() -> Iterator[BenchRequest]:
            end = time.perf_counter() + seconds
            for ledger_id, last in self._lasts.items():
                for first in range(0, last + 1, _BATCH):
                    if time.perf_counter() > end:
                        return
                    frame = v2.encode_batch_read(
                        ledger_id, first, 0, count_max=_BATCH, bytes_max=_BATCH_BYTES
                    )
                    yield (ledger_id, first), frame

        return await self._read("reads-sequential", requests(), _CONCURRENT_BATCHES)

    async def _read(
        self, name: str, requests: Iterator[BenchRequest], window: int
    ) -> dict[str, Any]:
        connection = await self.connect()
        seconds = await connection.run(requests, window)
        p50, p99, p999 = connection.latencies.quantiles_ms((0.5, 0.99, 0.999))
        return {
            "w": name,
            "peer": "rhumbline-bookie",
            "mode": "read",
            "window": window,
            "requests": connection.latencies.count,
            "rec_s": round(connection.entry_count / seconds),
            "MB_s": round(connection.entry_bytes / seconds / 1e6, 2),
            "p50_ms": round(p50, 3),
            "p99_ms": round(p99, 3),
            "p999_ms": round(p999, 3),
            "anon_mib": anonymous_bytes(self.pid) // _MIB,
        }

    # --- restarts ---------------------------------------------------------------------------------

    async def restart(self, name: str, number: signal.Signals) -> dict[str, Any]:
        """End the process by a signal and measure the time until it serves again.

        The time includes the start of the interpreter.
        """
        before = await self.statistics()
        self.disconnect()
        self._servers.end(self._directory, number)
        started = time.perf_counter()
        self._servers.start(self._directory)
        seconds = time.perf_counter() - started
        connection = await self.connect()
        ledger_id = self._ledgers[-1]
        last = self._lasts[ledger_id]
        if last >= 0:  # check that the last acknowledged entry is readable
            await connection.run(iter([((ledger_id, last), v2.encode_read(ledger_id, last))]), 1)
        return {
            "w": name,
            "peer": "rhumbline-bookie",
            "mode": "restart",
            "entries": sum(self._lasts.values()) + len(self._lasts),
            "disk_mib": disk_bytes(self._directory) // _MIB,
            "ledgers": before["ledgers"],
            "restart_s": round(seconds, 2),
            "anon_mib": anonymous_bytes(self.pid) // _MIB,
        }


def _size_name(size: int) -> str:
    return f"{size // 1024}K" if size >= 1024 else str(size)


@asynccontextmanager
async def one_bookie(servers: BookieProcesses) -> AsyncIterator[OneBookie]:
    """Create the ledgers in a cluster of one bookie."""
    client = Client(servers.metadata, namespace="bench", region=REGION)
    async with client:
        ledgers = [
            (await client.ledgers.create(Quorum(1, 1, 1))).ledger_id for _ in range(_LEDGERS)
        ]
        bookie = OneBookie(servers, client, ledgers)
        try:
            yield bookie
        finally:
            bookie.disconnect()


async def measure_adds(servers: BookieProcesses, name: str, load: BookieLoad) -> Rows:
    """Yield a row per entry size."""
    async with one_bookie(servers) as bookie:
        await bookie.add_for(name, SIZES[0], min(1.0, load.seconds))  # warm-up
        for size in SIZES:
            yield await bookie.add_for(name, size, load.seconds)


async def measure_reads_and_restarts(
    servers: BookieProcesses, load: BookieLoad, *, has_reads: bool = True, has_restarts: bool = True
) -> Rows:
    """Measure memory at rest, then reads and restarts over ``load.entry_count`` entries."""
    async with one_bookie(servers) as bookie:
        if has_restarts:
            yield await bookie.restart("restart-empty", signal.SIGTERM)
        await bookie.fill(load)
        if has_reads:
            yield await bookie.read_at_random(load.seconds)
            yield await bookie.read_in_order(load.seconds)
        if has_restarts:
            yield await bookie.restart("restart-kill9", signal.SIGKILL)
            yield await bookie.restart("restart-clean", signal.SIGTERM)
