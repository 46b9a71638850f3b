"""Latencies of the operations of a metadata store, and the time of a takeover.

One process calls a store; everything runs on one machine. The numbers are for comparing stores that
were measured in one sitting.
"""

import asyncio
import itertools
import os
import signal
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from ...backends.open_store import open_store
from ...core.protocol.errors import NodeExistsError
from ...core.runtime.metadata_store import MetadataStore, Put
from .trees import remove_tree

VALUE = b"x" * 300
CALLERS = 16
TTL_MS = 2_000
_TXN_PUTS = 8

Work = Callable[[int], Awaitable[object]]


def summary(durations_s: Sequence[float]) -> dict[str, float]:
    """Return p50 and p99 in ms of at least two durations."""
    cuts = statistics.quantiles(durations_s, n=100, method="inclusive")
    return {"p50_ms": round(cuts[49] * 1000, 3), "p99_ms": round(cuts[98] * 1000, 3)}


async def measure_calls(work: Work, callers: int, seconds: float) -> dict[str, float]:
    """Return rate, p50 and p99 of ``callers`` that repeat ``work(caller)`` for ``seconds``."""
    durations: list[float] = []
    began = time.perf_counter()

    async def repeat(caller: int) -> None:
        while (started := time.perf_counter()) < began + seconds or len(durations) < 2:
            await work(caller)
            durations.append(time.perf_counter() - started)

    await asyncio.gather(*[repeat(caller) for caller in range(callers)])
    rate = len(durations) / (time.perf_counter() - began)
    return {"per_s": round(rate, 1), **summary(durations)}


async def measure_operations(
    uri: str, seconds: float, *, has_processes: bool
) -> dict[str, dict[str, float]]:
    """Return the latencies of each operation by its name.

    ``has_processes`` is False if no other process can open the store: then there is no takeover.
    """
    store, other = await open_store(uri), await open_store(uri)
    root = f"/bench-{os.urandom(4).hex()}"
    try:
        for caller in range(CALLERS):
            await store.create(f"{root}/n/{caller}", VALUE)
        found: dict[str, dict[str, float]] = {}
        for name, work, callers in _works(store, root):
            found[name] = await measure_calls(work, callers, seconds)
        delays = await _watch_delays(store, other, f"{root}/n/0", seconds)
        found["write to watch of another handle"] = summary(delays)
        if has_processes:
            took_ms = await _takeover_ms(store, uri, f"{root}/claim")
            found["takeover, session of 2 s"] = {"p50_ms": round(took_ms)}
        return found
    finally:
        await remove_tree(store, root)
        await other.close()
        await store.close()


def _works(store: MetadataStore, root: str) -> list[tuple[str, Work, int]]:
    names = itertools.count()

    async def claim(_: int) -> None:
        session = await store.session(TTL_MS)
        await store.create(f"{root}/session-{next(names)}", ephemeral=session)
        await session.close()

    async def create_and_delete(_: int) -> None:
        path, version = await store.create(f"{root}/c/{next(names)}", VALUE)
        await store.delete(path, expect=version)

    def put(caller: int) -> Awaitable[object]:
        return store.put(f"{root}/n/{caller}", VALUE)

    def get(caller: int) -> Awaitable[object]:
        return store.get(f"{root}/n/{caller}")

    def txn(_: int) -> Awaitable[object]:
        return store.txn([Put(f"{root}/n/{each}", VALUE) for each in range(_TXN_PUTS)])

    return [
        ("get", get, 1),
        ("get, stale allowed", lambda _: store.get(f"{root}/n/0", stale_ok=True), 1),
        ("children of 16", lambda _: store.children(f"{root}/n"), 1),
        ("put", put, 1),
        ("create and delete", create_and_delete, 1),
        (f"transaction of {_TXN_PUTS} puts", txn, 1),
        ("session with an ephemeral node", claim, 1),
        (f"get by {CALLERS} callers", get, CALLERS),
        (f"put by {CALLERS} callers", put, CALLERS),
    ]


async def _watch_delays(
    writer: MetadataStore, watcher: MetadataStore, path: str, seconds: float
) -> list[float]:
    """Return the times from the start of a write to the watch callback of another handle."""
    notified = asyncio.Event()
    watch = watcher.watch(path, notified.set)
    await asyncio.sleep(0.3)  # a watch may fire soon after it was set
    delays: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(delays) < 2:
        notified.clear()
        started = time.perf_counter()
        await writer.put(path, VALUE)
        await notified.wait()
        delays.append(time.perf_counter() - started)
        await asyncio.sleep(0.03)
    watch.close()
    return delays


async def _takeover_ms(store: MetadataStore, uri: str, path: str) -> float:
    """Return the time in ms from the death of an owner until another client holds its claim.

    It includes the session's TTL.
    """
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rhumbline.backends.conformance.session_holder",
        uri, path, str(TTL_MS),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None
    await holder.stdout.readline()
    changed = asyncio.Event()
    watch = store.watch(path, changed.set)
    holder.send_signal(signal.SIGKILL)
    started = time.perf_counter()
    while True:
        changed.clear()
        try:
            await store.create(path, b"mine")
        except NodeExistsError:
            await changed.wait()
        else:
            break
    elapsed_ms = (time.perf_counter() - started) * 1000
    watch.close()
    await holder.wait()
    return elapsed_ms
