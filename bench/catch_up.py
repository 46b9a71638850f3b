"""The catch-up benchmark: writes a stream once and reads it back as records and as Arrow."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from ..client.connect import Client
from ..core.protocol.errors import GapError
from .harness.bookie_processes import BookieProcesses
from .harness.load import NAMESPACE, ensure_namespace
from .harness.settling import settle
from .harness.workload import BenchWorkload
from .readers.page_cache import drop_cached, read_data_files

_BATCH = 1_000
_POSITION_EVERY = 100


async def run_catch_up(
    servers: BookieProcesses,
    name: str,
    size: int,
    count: int,
    repetitions: int,
    *,
    is_cold: bool = False,
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row per reading, by record and by Arrow batch.

    ``is_cold``: before each reading the page cache is dropped, and the rows begin with one about
    reading the bookies' files. Raises GapError if records are missing.
    """
    client = servers.client(NAMESPACE)
    policy = BenchWorkload(name, "max", size).policy
    async with client:
        await ensure_namespace(client, policy)
        await client.namespace().create_stream(name, policy)
        written_s = await _write(client, name, size, count)
        if is_cold:
            await settle([servers])
            yield await _read_files(servers, name, size)
        readings = [(form, repetition) for form in READINGS for repetition in range(repetitions)]
        for form, repetition in readings:
            if is_cold:
                await asyncio.to_thread(drop_cached, servers.directories)
            before, started = servers.usage(), time.perf_counter()
            read = await READINGS[form](client, name, count)
            seconds, after = time.perf_counter() - started, servers.usage()
            if read != count:
                raise GapError(f"{read} of {count} records were read")
            yield {
                "w": name,
                "peer": f"rhumbline-{form}{'-cold' if is_cold else ''}",
                "mode": "catchup",
                "rep": repetition,
                "size": size,
                "streams": 1,
                "count": count,
                "read": read,
                "rec_s": round(count / seconds),
                "MB_s": round(count * size / seconds / 1e6, 2),
                "write_1stream_rec_s": round(count / written_s),
                "srv_cpu_per_M": round((after.server_cpu_s - before.server_cpu_s) / count * 1e6, 2),
                "cli_cpu_per_M": round((after.client_cpu_s - before.client_cpu_s) / count * 1e6, 2),
                "srv_rss": after.server_rss_mib,
                "cli_rss": after.client_rss_mib,
            }


async def _read_files(servers: BookieProcesses, name: str, size: int) -> dict[str, Any]:
    """Return a row about reading the files of all bookies, as fast as the disk permits."""
    await asyncio.to_thread(drop_cached, servers.directories)
    read_bytes, seconds = await asyncio.to_thread(read_data_files, servers.directories)
    return {
        "w": name,
        "peer": "files-cold",
        "mode": "catchup",
        "rep": 0,
        "size": size,
        "streams": 1,
        "rec_s": round(read_bytes / size / seconds),
        "MB_s": round(read_bytes / seconds / 1e6, 2),
    }


async def _write(client: Client, name: str, size: int, count: int) -> float:
    payload = os.urandom(size)
    started = time.perf_counter()
    async with client.writer(name) as writer:
        for _ in range(count // _BATCH):
            writer.append_many([payload] * _BATCH)
            await writer.room()
        await writer.flush()
    return time.perf_counter() - started


async def _read_records(client: Client, name: str, count: int) -> int:
    """Read the payload and txid of each record, and the position of every 100th."""
    read = size = last_txid = 0
    async with client.reader(name) as reader:
        async for batch in reader.batches():
            for record in batch.records():
                size += len(record.payload)
                if record.txid < last_txid:
                    raise GapError(f"txid {record.txid} follows txid {last_txid}")
                last_txid = record.txid
                read += 1
                if read % _POSITION_EVERY == 0 and record.dlsn.lssn < 1:
                    raise GapError(f"{record.dlsn} is not a valid position")
            if read >= count:
                break
    return read if size else 0


async def _read_arrow(client: Client, name: str, count: int) -> int:
    """Convert each entry to an Arrow record batch, with verified checksums."""
    read = 0
    async with client.reader(name) as reader:
        async for batch in reader.batches():
            columns = batch.to_arrow()
            read += columns.num_rows
            if read >= count:
                break
    return read


READINGS: dict[str, Callable[[Client, str, int], Awaitable[int]]] = {
    "records": _read_records,
    "arrow": _read_arrow,
}
"""The ways to read a stream: they return the number of records that they have read."""
