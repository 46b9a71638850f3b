"""Measures metadata stores: operations per second, latencies, watch latency, takeover time.

    python -m rhumbline.bench.metadata_stores sqlite:///tmp/m.db zk://h:2181/bench etcd://h:2379/bench

All nodes lie below ``/bench-<random>``, which is removed afterwards. Everything runs on one machine
with one client process, so the results are meant for comparing stores. The takeover waits for a
session whose owner was killed, so it takes the session's TTL and the delay that the store adds.
"""

import asyncio
import os
import signal
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

from ..backends.open_store import open_store
from ..core.protocol.errors import NodeExistsError
from ..core.runtime.metadata_store import MetadataStore

SECONDS = 3.0
CALLERS = 16
TTL_MS = 2_000
VALUE = b"x" * 300


async def measure_calls(
    work: Callable[[int], Awaitable[object]], callers: int
) -> tuple[float, ...]:
    """Return (operations per second, p50 ms, p99 ms) of ``callers`` that repeat ``work``."""
    durations: list[float] = []
    end = time.perf_counter() + SECONDS

    async def caller(number: int) -> None:
        while (started := time.perf_counter()) < end:
            await work(number)
            durations.append(time.perf_counter() - started)

    await asyncio.gather(*[caller(number) for number in range(callers)])
    cuts = statistics.quantiles(durations, n=100)
    return len(durations) / SECONDS, cuts[49] * 1000, cuts[98] * 1000


async def watch_latency_ms(writer: MetadataStore, watcher: MetadataStore, path: str) -> float:
    """Return the median time from the start of a write to the watch callback of another handle."""
    notified = asyncio.Event()
    watch = watcher.watch(path, notified.set)
    await asyncio.sleep(0.3)
    delays = []
    for number in range(50):
        notified.clear()
        started = time.perf_counter()
        await writer.put(path, b"%d" % number)
        await notified.wait()
        delays.append((time.perf_counter() - started) * 1000)
        await asyncio.sleep(0.03)
    watch.close()
    return statistics.median(delays)


async def takeover_ms(store: MetadataStore, uri: str, path: str) -> float:
    """Return the time in ms from the death of an owner until another client holds its claim."""
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


async def measure(uri: str) -> None:
    """Print one line of results for a store."""
    store, other = await open_store(uri), await open_store(uri)
    root = f"/bench-{os.urandom(4).hex()}"
    for number in range(CALLERS):
        await store.create(f"{root}/{number}", VALUE)
    alone = await measure_calls(lambda number: store.put(f"{root}/{number}", VALUE), 1)
    puts = await measure_calls(lambda number: store.put(f"{root}/{number}", VALUE), CALLERS)
    gets = await measure_calls(lambda number: store.get(f"{root}/{number}"), CALLERS)
    watch_ms = await watch_latency_ms(store, other, f"{root}/0")
    claim_ms = await takeover_ms(store, uri, f"{root}/claim")
    scheme = uri.partition(":")[0]
    print(
        f"{scheme:6}  put alone {alone[0]:6.0f}/s p50 {alone[1]:5.2f} p99 {alone[2]:6.2f} ms  "
        f"put by {CALLERS} {puts[0]:6.0f}/s p99 {puts[2]:6.2f} ms  "
        f"get by {CALLERS} {gets[0]:6.0f}/s p99 {gets[2]:6.2f} ms  "
        f"watch {watch_ms:5.1f} ms  takeover {claim_ms:6.0f} ms",
        flush=True,
    )
    for name in await store.children(root):
        await store.delete(f"{root}/{name}")
    await store.delete(root)
    await other.close()
    await store.close()


def main() -> None:
    """Measure each store named on the command line."""
    for uri in sys.argv[1:]:
        asyncio.run(measure(uri))


if __name__ == "__main__":
    main()
