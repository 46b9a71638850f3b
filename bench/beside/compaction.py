"""The benchmark of writers and tailing readers while a backlog of sealed logs is compacted."""

import asyncio
import json
import time
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from ...client.connect import Client
from ...server.bookie_host import status_address
from ..harness.bookie_processes import BookieProcesses
from ..harness.load import NAMESPACE
from ..harness.settling import settle
from ..harness.workload import BenchWorkload
from .foreground import QUIET, Mode, Row, measure_beside
from .stored_entries import store_entries

_LOG_BYTES = {"log_file_bytes": str(32 << 20)}  # 1 GiB is as many logs as 8 GiB by default
KEEPING = {**_LOG_BYTES, "sealed_logs_kept": "100000"}
"""Settings of bookies that compact nothing."""
COMPACTING = {
    **_LOG_BYTES,
    "sealed_logs_kept": "0",
    "maintenance_ms": "500ms",
    "compaction_backlog_logs": "128",  # as many bytes as by default
}
"""Settings of bookies that compact all sealed logs."""

_LEDGERS = 64
_SETTLE_SECONDS = 1.0


async def fill_backlog(servers: BookieProcesses, bytes_held: int, entry_size: int) -> Row:
    """Write the entries of the backlog, ``bytes_held`` to each bookie, and return a row."""
    started = time.perf_counter()
    async with servers.client(NAMESPACE) as client:
        await store_entries(client, _LEDGERS, bytes_held // _LEDGERS, entry_size)
    return {
        "w": "fill",
        "peer": "rhumbline",
        "beside": "quiet",
        "rep": 0,
        "seconds": round(time.perf_counter() - started, 1),
    }


async def measure_without_compaction(
    servers: BookieProcesses,
    workloads: Sequence[BenchWorkload],
    *,
    bytes_held: int,
    entry_size: int,
    seconds: float,
    repetitions: int,
) -> AsyncIterator[Row]:
    """Fill the backlog of bookies that keep it, and yield rows of quiet windows."""
    yield await fill_backlog(servers, bytes_held, entry_size)
    await settle([servers])
    for workload in workloads:
        async for row in measure_beside(servers, workload, [QUIET], seconds, repetitions):
            yield row


async def measure_while_compacting(
    servers: BookieProcesses, workloads: Sequence[BenchWorkload], seconds: float, repetitions: int
) -> AsyncIterator[Row]:
    """Yield rows of windows in which the bookies compact their backlog, while there is any."""
    async with servers.client(NAMESPACE) as client:
        compaction = Mode("compaction", partial(_compaction, client))
        for workload in workloads:
            async for row in measure_beside(servers, workload, [compaction], seconds, repetitions):
                yield row


@asynccontextmanager
async def _compaction(client: Client, row: Row) -> AsyncIterator[None]:
    await asyncio.sleep(_SETTLE_SECONDS)
    (_, before), since = await _progress(client), time.perf_counter()
    yield
    (logs, after), seconds = await _progress(client), time.perf_counter() - since
    row["sorted_MB_s"] = round((after - before) / seconds / 1e6, 1)
    row["sealed_logs_left"] = logs


async def _progress(client: Client) -> tuple[int, int]:
    """Return the sealed logs that wait in all bookies, and the bytes that were sorted."""
    logs = sorted_bytes = 0
    for info in await client.directory.everything():
        address = await status_address(client.store, info.bookie)
        assert address is not None
        statistics = await asyncio.to_thread(_statistics, "http://{}:{}/stat".format(*address))
        logs += statistics["sealed_logs"]
        sorted_bytes += statistics["sorted_bytes"]
    return logs, sorted_bytes


def _statistics(url: str) -> Row:
    with urllib.request.urlopen(url, timeout=10) as response:
        found = json.load(response)
    assert isinstance(found, dict)
    return found
