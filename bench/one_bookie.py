"""One bookie process: adds, what they cost on disk, reads, restarts, memory.

Rows are named B1 (adds), B2 (adds while the sorter keeps up), B3 (reads), B4 (restarts).
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

from ..client.connect import Client
from ..core.protocol.errors import UnavailableError
from ..core.protocol.ledger_metadata import DigestType
from ..core.protocol.quorum import Quorum
from ..core.wire import v2
from ..core.wire.entry import ENTRY_HEADER_BYTES, EntryDigest, encode_entry, master_key
from ..server.bookie_host import status_address
from .harness.bookie_processes import REGION, BookieProcesses, anonymous_bytes, written_bytes
from .harness.raw_connection import BenchWire, Question, until

SIZES = (128, 1024, 16 * 1024, 128 * 1024)
SORTING = {"sealed_logs_kept": "0", "log_file_bytes": str(32 << 20), "maintenance_ms": "200ms"}
"""Settings under which everything is rewritten soon."""

_LEDGERS = 16
_WINDOW_BYTES = 6 << 20
_WINDOW_MAX = 2_000
_READ_WINDOW = 256
_BATCH = 100
_BATCH_BYTES = 1 << 20
_BATCHES_AT_ONCE = 4
_SORT_SECONDS_MAX = 600
_CONNECT_SECONDS_MAX = 30
_MIB = 1 << 20

Rows = AsyncIterator[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Load:
    """How much: seconds of each timed window; entries and their size for reads and restarts."""

    seconds: float
    entry_count: int
    entry_size: int


class OneBookie:
    """A bookie process, ledgers that only it holds, a connection to it; made by ``one_bookie``."""

    def __init__(self, servers: BookieProcesses, client: Client, ledgers: list[int]) -> None:
        self._servers = servers
        self._client = client
        self._directory = servers.directories[0]
        self._ledgers = ledgers
        self._lasts = dict.fromkeys(ledgers, -1)
        self._digest = EntryDigest(DigestType.CRC32C, b"")
        self._key = master_key(b"")
        self._wire: BenchWire | None = None

    @property
    def pid(self) -> int:
        """Of the process that runs now."""
        return self._servers.pid(self._directory)

    async def connect(self) -> BenchWire:
        """A connection to the process that runs now, in place of the one before."""
        self.hang_up()
        deadline = time.perf_counter() + _CONNECT_SECONDS_MAX
        while True:
            try:
                (info,) = await self._client.directory.everything()
                address = (await self._client.directory.registration(info.bookie)).address
                self._wire = await BenchWire.connect(address.host, address.port)
                return self._wire
            except (OSError, ValueError, UnavailableError):  # not registered anew yet
                if time.perf_counter() > deadline:
                    raise
            await asyncio.sleep(0.05)

    def hang_up(self) -> None:
        """Closes the connection. Safe to repeat."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    async def figures(self) -> dict[str, Any]:
        """What the bookie says of itself."""
        (info,) = await self._client.directory.snapshot()
        found = await status_address(self._client.store, info.bookie)
        assert found is not None
        url = "http://{}:{}/stat".format(*found)

        def get() -> Any:  # noqa: ANN401 - JSON
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)

        figures = await asyncio.to_thread(get)
        assert isinstance(figures, dict)
        return figures

    # --- adds -----------------------------------------------------------------------------------

    def _next_add(self, payload: bytes, number: int) -> Question:
        ledger_id = self._ledgers[number % len(self._ledgers)]
        entry_id = self._lasts[ledger_id] = self._lasts[ledger_id] + 1
        entry = encode_entry(self._digest, ledger_id, entry_id, entry_id - 1, 0, payload)
        return (ledger_id, entry_id), v2.encode_add(self._key, entry)

    async def add_for(self, name: str, size: int, seconds: float) -> dict[str, Any]:
        """Adds of one size at full speed, and what they cost."""
        wire = await self.connect()
        payload = os.urandom(size)
        window = max(16, min(_WINDOW_MAX, _WINDOW_BYTES // size))
        before, usage = await self._cost(), self._servers.usage()
        took_s = await wire.run(until(seconds, lambda n: self._next_add(payload, n)), window)
        anonymous = anonymous_bytes(self.pid)
        used = self._servers.usage()
        sorted_s = await self._sorted()
        count = wire.latencies.count
        acknowledged = count * (size + ENTRY_HEADER_BYTES + self._digest.size)
        added = [now - then for now, then in zip(await self._cost(), before, strict=True)]
        p50, p99, p999 = wire.latencies.quantiles_ms((0.5, 0.99, 0.999))
        return {
            "w": f"{name}-{_name_of(size)}",
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

    async def _cost(self) -> tuple[int, int, int]:
        """Bytes so far: to the log, to sorted files, to the disk by the kernel's account."""
        figures = await self.figures()
        return figures["log_bytes"], figures["sorted_bytes"], written_bytes(self.pid)

    async def _sorted(self) -> float:
        """Waits until no more sealed logs are left than are kept; seconds that it took."""
        started = time.perf_counter()
        while (figures := await self.figures())["sealed_logs"] > self._servers.sealed_logs_kept:
            if time.perf_counter() - started > _SORT_SECONDS_MAX:
                raise UnavailableError(f"not sorted: {figures['sealed_logs']} logs are left")
            await asyncio.sleep(0.05)
        return time.perf_counter() - started

    async def fill(self, load: Load) -> None:
        """Adds until there are ``entry_count`` entries more."""
        wire = await self.connect()
        payload = os.urandom(load.entry_size)
        window = max(16, min(_WINDOW_MAX, _WINDOW_BYTES // load.entry_size))
        await wire.run((self._next_add(payload, n) for n in range(load.entry_count)), window)

    # --- reads ----------------------------------------------------------------------------------

    async def read_at_random(self, seconds: float) -> dict[str, Any]:
        """Single entries anywhere."""
        chance = random.Random(1)

        def make(_: int) -> Question:
            ledger_id = chance.choice(self._ledgers)
            entry_id = chance.randrange(self._lasts[ledger_id] + 1)
            return (ledger_id, entry_id), v2.encode_read(ledger_id, entry_id)

        return await self._read("B3-random", until(seconds, make), _READ_WINDOW)

    async def read_in_order(self, seconds: float) -> dict[str, Any]:
        """Ledger after ledger from the beginning, in batches."""

        def questions() -> Iterator[Question]:
            end = time.perf_counter() + seconds
            for ledger_id, last in self._lasts.items():
                for first in range(0, last + 1, _BATCH):
                    if time.perf_counter() > end:
                        return
                    frame = v2.encode_batch_read(
                        ledger_id, first, 0, count_max=_BATCH, bytes_max=_BATCH_BYTES
                    )
                    yield (ledger_id, first), frame

        return await self._read("B3-sequential", questions(), _BATCHES_AT_ONCE)

    async def _read(self, name: str, questions: Iterator[Question], window: int) -> dict[str, Any]:
        wire = await self.connect()
        seconds = await wire.run(questions, window)
        p50, p99, p999 = wire.latencies.quantiles_ms((0.5, 0.99, 0.999))
        return {
            "w": name,
            "peer": "rhumbline-bookie",
            "mode": "read",
            "window": window,
            "requests": wire.latencies.count,
            "rec_s": round(wire.entry_count / seconds),
            "MB_s": round(wire.entry_bytes / seconds / 1e6, 2),
            "p50_ms": round(p50, 3),
            "p99_ms": round(p99, 3),
            "p999_ms": round(p999, 3),
            "anon_mib": anonymous_bytes(self.pid) // _MIB,
        }

    # --- restarts -------------------------------------------------------------------------------

    async def restart(self, name: str, number: signal.Signals) -> dict[str, Any]:
        """Ends the process by a signal; how long until it serves again, interpreter included."""
        before = await self.figures()
        self.hang_up()
        self._servers.end(self._directory, number)
        started = time.perf_counter()
        self._servers.start(self._directory)
        seconds = time.perf_counter() - started
        wire = await self.connect()
        ledger_id = self._ledgers[-1]
        last = self._lasts[ledger_id]
        if last >= 0:  # it serves: the last acknowledged entry is there
            await wire.run(iter([((ledger_id, last), v2.encode_read(ledger_id, last))]), 1)
        size = sum(path.stat().st_size for path in self._directory.rglob("*.*"))
        return {
            "w": name,
            "peer": "rhumbline-bookie",
            "mode": "restart",
            "entries": sum(self._lasts.values()) + len(self._lasts),
            "disk_mib": size // _MIB,
            "ledgers": before["ledgers"],
            "restart_s": round(seconds, 2),
            "anon_mib": anonymous_bytes(self.pid) // _MIB,
        }


def _name_of(size: int) -> str:
    return f"{size // 1024}K" if size >= 1024 else str(size)


@asynccontextmanager
async def one_bookie(servers: BookieProcesses) -> AsyncIterator[OneBookie]:
    """Makes the ledgers, in the cluster of one bookie that ``servers`` is."""
    client = Client(servers.metadata, namespace="bench", region=REGION)
    async with client:
        ledgers = [
            (await client.ledgers.create(Quorum(1, 1, 1))).ledger_id for _ in range(_LEDGERS)
        ]
        bookie = OneBookie(servers, client, ledgers)
        try:
            yield bookie
        finally:
            bookie.hang_up()


async def measure_adds(servers: BookieProcesses, name: str, load: Load) -> Rows:
    """A row for each entry size."""
    async with one_bookie(servers) as bookie:
        await bookie.add_for(name, SIZES[0], min(1.0, load.seconds))  # warm
        for size in SIZES:
            yield await bookie.add_for(name, size, load.seconds)


async def measure_reads_and_restarts(servers: BookieProcesses, load: Load) -> Rows:
    """Memory at rest; then rows for reads and restarts over ``load.entry_count`` entries."""
    async with one_bookie(servers) as bookie:
        yield await bookie.restart("B4-empty", signal.SIGTERM)
        await bookie.fill(load)
        yield await bookie.read_at_random(load.seconds)
        yield await bookie.read_in_order(load.seconds)
        yield await bookie.restart("B4-kill9", signal.SIGKILL)
        yield await bookie.restart("B4-clean", signal.SIGTERM)
