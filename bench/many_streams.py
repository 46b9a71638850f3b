"""The benchmark of thousands of open streams: cost to open, append one record, idle and close."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import islice
from typing import Any, TypeVar

from ..client.connect import Client
from ..core.log.policy import StreamPolicy
from ..core.log.write.stream_writer import StreamWriter
from ..core.protocol.quorum import Quorum
from .harness.bookie_processes import REGION, BookieProcesses
from .harness.load import NAMESPACE, ensure_namespace
from .harness.metadata_calls import metadata_calls

_RECORD_BYTES = 128
_CONCURRENCY = 64  # streams that are opened or closed concurrently
T = TypeVar("T")


async def measure_many_streams(
    servers: BookieProcesses, count: int, rest_seconds: float
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row per step: create, open, append one record to each (twice), idle, close.

    ``metadata_calls`` are those of the client during the step; ``files`` are the file descriptors
    of the client and the bookies after it.
    """
    names = [f"many-{number:06d}" for number in range(count)]
    policy = StreamPolicy(quorum=Quorum(3, 3, 2))
    writers: list[StreamWriter] = []

    async def open_one(name: str) -> None:
        writers.append(await client.namespace().open_writer(name))

    async def append_to_each() -> None:
        tickets = [writer.append(payload) for writer in writers]
        for ticket in tickets:
            await ticket

    payload = os.urandom(_RECORD_BYTES)
    client = Client(servers.metadata, namespace=NAMESPACE, region=REGION)
    async with client:
        await ensure_namespace(client, policy)
        create = client.namespace().create_stream
        steps: tuple[tuple[str, Callable[[], Awaitable[object]]], ...] = (
            ("create", lambda: _each(names, lambda name: create(name, policy))),
            ("open", lambda: _each(names, open_one)),
            ("append-1", append_to_each),
            ("append-2", append_to_each),
            ("rest", lambda: asyncio.sleep(rest_seconds)),
            ("close", lambda: _each(writers, StreamWriter.close)),
        )
        for step, work in steps:
            before, started = servers.usage(), time.perf_counter()
            calls_before = metadata_calls(client)
            await work()
            seconds, after = time.perf_counter() - started, servers.usage()
            yield {
                "w": step,
                "peer": "rhumbline-imm",
                "streams": count,
                "seconds": round(seconds, 3),
                "rec_s": round(count / seconds) if step != "rest" else 0,
                "srv_cpu": round((after.server_cpu_s - before.server_cpu_s) / seconds, 3),
                "cli_cpu": round((after.client_cpu_s - before.client_cpu_s) / seconds, 3),
                "srv_rss": after.server_rss_mib,
                "cli_rss": after.client_rss_mib,
                "tasks": len(asyncio.all_tasks()),
                "metadata_calls": metadata_calls(client) - calls_before,
                "files": servers.open_files(),
            }


async def _each(items: Sequence[T], work: Callable[[T], Awaitable[object]]) -> None:
    """Do the work for every item, in batches of bounded concurrency."""
    remaining = iter(items)
    while batch := list(islice(remaining, _CONCURRENCY)):
        await asyncio.gather(*map(work, batch))
