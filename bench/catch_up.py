"""Catch-up: one stream is written once, and then read from its beginning."""

import os
import time
from collections.abc import AsyncIterator
from typing import Any

from ..client.connect import Client
from ..core.protocol.errors import GapError
from .load import NAMESPACE, ensure_namespace
from .processes import REGION, BookieProcesses
from .workload import Workload

_BATCH = 1_000


async def run_catch_up(
    servers: BookieProcesses, name: str, size: int, count: int, repetitions: int
) -> AsyncIterator[dict[str, Any]]:
    """Yields a row for each reading. Raises GapError when records are missing."""
    client = Client(servers.metadata, namespace=NAMESPACE, region=REGION)
    policy = Workload(name, "max", size).policy
    async with client:
        await ensure_namespace(client, policy)
        await client.namespace().create_stream(name, policy)
        written_s = await _write(client, name, size, count)
        for number in range(repetitions):
            before, started = servers.usage(), time.perf_counter()
            read = await _read(client, name, count)
            seconds, after = time.perf_counter() - started, servers.usage()
            if read != count:
                raise GapError(f"{read} of {count} records came")
            yield {
                "w": name,
                "peer": "rhumbline-per10",
                "mode": "catchup",
                "rep": number,
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


async def _write(client: Client, name: str, size: int, count: int) -> float:
    payload = os.urandom(size)
    started = time.perf_counter()
    async with client.writer(name) as writer:
        for _ in range(count // _BATCH):
            writer.append_many([payload] * _BATCH)
            await writer.room()
        await writer.flush()
    return time.perf_counter() - started


async def _read(client: Client, name: str, count: int) -> int:
    read = 0
    async with client.reader(name) as reader:
        async for batch in reader.batches():
            read += len(batch.payloads())
            if read >= count:
                break
    return read
