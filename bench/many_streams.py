"""The benchmark of thousands of streams: create, open, append, idle, take over and close them."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from statistics import median
from typing import Any, TypeVar

from ..client.connect import Client
from ..core.log.policy import StreamPolicy
from ..core.log.write.stream_writer import StreamWriter
from ..core.protocol.quorum import Quorum
from ..core.runtime.primitives.slices import slices
from ..core.runtime.tasks import for_each
from .harness.bookie_processes import BookieProcesses
from .harness.load import ensure_namespace
from .harness.metadata_calls import metadata_calls, open_distant_client

_RECORD_BYTES = 128
_OUTSTANDING = 1_000  # records that are appended concurrently
_CONCURRENCY = 64  # streams that are opened or closed concurrently
_SETTLE_S = 1.0  # from the last record until pauses are measured
_TICK_S = 0.002
T = TypeVar("T")


async def measure_many_streams(
    servers: BookieProcesses, count: int, rest_seconds: float, metadata_delay_s: float = 0.0
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row for each step: create, open, append one record to each (twice), idle, take over
    by another client after the first one stopped as in a crash, close.

    ``metadata_calls`` are those of the clients during the step; ``files`` are the file descriptors
    of the clients and the bookies after it. ``p50_ms`` is the median for a stream, and ``pause_ms``
    the longest time at rest during which the client's event loop served nothing else.
    """
    names = [f"many-{number:06d}" for number in range(count)]
    policy = StreamPolicy(quorum=Quorum(3, 3, 2))
    payload = os.urandom(_RECORD_BYTES)
    writers: list[StreamWriter] = []
    async with AsyncExitStack() as opening:

        async def open_with(client: Client) -> list[float]:
            async def open_one(name: str) -> None:
                opened.append(await client.namespace().open_writer(name))

            opened: list[StreamWriter] = []
            seconds = await _each(names, open_one)
            writers[:] = opened
            return seconds

        async def take_over() -> list[float]:
            for writer in writers:
                await writer.abort()
            return await open_with(second)

        first, second = [
            await open_distant_client(opening, servers.metadata, metadata_delay_s) for _ in range(2)
        ]
        await ensure_namespace(first, policy)
        create = first.namespace().create_stream
        steps: tuple[tuple[str, Callable[[], Awaitable[list[float] | None]]], ...] = (
            ("create", lambda: _each(names, lambda name: create(name, policy))),
            ("open", lambda: open_with(first)),
            ("append-1", lambda: _append_to_each(writers, payload)),
            ("append-2", lambda: _append_to_each(writers, payload)),
            ("rest", lambda: _pauses(rest_seconds)),
            ("take-over", take_over),
            ("close", lambda: _each(writers, StreamWriter.close)),
        )
        for step, work in steps:
            before, started = servers.usage(), time.perf_counter()
            calls_before = sum(map(metadata_calls, (first, second)))
            times_s = await work() or []
            is_rest = step == "rest"
            seconds, after = time.perf_counter() - started, servers.usage()
            yield {
                "w": step,
                "peer": "rhumbline-imm",
                "streams": count,
                "seconds": round(seconds, 3),
                "rec_s": 0 if is_rest else round(count / seconds),
                "p50_ms": round(median(times_s) * 1000, 1) if times_s and not is_rest else None,
                "pause_ms": round(max(times_s) * 1000, 1) if is_rest else None,
                "srv_cpu": round((after.server_cpu_s - before.server_cpu_s) / seconds, 3),
                "cli_cpu": round((after.client_cpu_s - before.client_cpu_s) / seconds, 3),
                "srv_rss": after.server_rss_mib,
                "cli_rss": after.client_rss_mib,
                "tasks": len(asyncio.all_tasks()),
                "metadata_calls": sum(map(metadata_calls, (first, second))) - calls_before,
                "files": servers.open_files(),
            }


async def _append_to_each(writers: Sequence[StreamWriter], payload: bytes) -> None:
    """Append one record to every stream, ``_OUTSTANDING`` at a time."""
    async for some in slices(writers, _OUTSTANDING):
        tickets = [writer.append(payload) for writer in some]
        for ticket in tickets:
            await ticket


async def _pauses(seconds: float) -> list[float]:
    """Let earlier work end, then return the pauses of the event loop within ``seconds``.

    A pause is by how many seconds the event loop serves a timer too late.
    """
    await asyncio.sleep(_SETTLE_S)
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    found = [0.0]
    while (began := loop.time()) < end:
        await asyncio.sleep(_TICK_S)
        found.append(loop.time() - began - _TICK_S)
    return found


async def _each(items: Sequence[T], work: Callable[[T], Awaitable[object]]) -> list[float]:
    """Do the work for every item, ``_CONCURRENCY`` at a time; return how many seconds each took."""
    found: list[float] = []

    async def timed(item: T) -> None:
        began_s = time.perf_counter()
        await work(item)
        found.append(time.perf_counter() - began_s)

    await for_each(items, timed, _CONCURRENCY)
    return found
