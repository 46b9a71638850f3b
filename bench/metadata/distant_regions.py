"""A metadata store with a member in each of three regions that are far apart."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from ...backends.open_store import open_store
from ...core.runtime.metadata_store import MetadataStore
from .ensembles import REGIONS, running_ensemble
from .operations import measure_calls, summary

_TIMEOUT_MS = 10_000
_WATCH_SAMPLES = 20


async def measure_regions(
    kind: str, folder: Path, rtt_ms: int, seconds: float
) -> dict[str, dict[str, Any]]:
    """Measure clients that use the member of their own region: the leader's, and another.

    Every pair of regions is ``rtt_ms`` apart.
    """
    async with running_ensemble(kind, folder, len(REGIONS), rtt_ms=rtt_ms) as ensemble:
        leader = (await ensemble.leader()).region
        other = next(member.region for member in ensemble.members if member.region != leader)
        found = {}
        for place, region in (("leader's region", leader), ("another region", other)):
            uri = ensemble.uri(region)
            began = time.perf_counter()
            store = await open_store(uri, timeout_ms=_TIMEOUT_MS)
            opened_ms = (time.perf_counter() - began) * 1000
            far = await open_store(
                ensemble.uri(other if region == leader else leader), timeout_ms=_TIMEOUT_MS
            )
            try:
                found[place] = {
                    "open": {"p50_ms": round(opened_ms)},
                    **await _measure(store, far, seconds),
                }
            finally:
                await far.close()
                await store.close()
        return found


async def _measure(
    store: MetadataStore, far: MetadataStore, seconds: float
) -> dict[str, dict[str, float]]:
    path, _ = await store.create(f"/bench-{os.urandom(4).hex()}", b"x")
    works = {
        "put": lambda _: store.put(path, b"y"),
        "get": lambda _: store.get(path),
        "get, stale allowed": lambda _: store.get(path, stale_ok=True),
    }
    found = {name: await measure_calls(work, 1, seconds) for name, work in works.items()}
    notified = asyncio.Event()
    watch = far.watch(path, notified.set)
    await asyncio.sleep(1)
    delays = []
    for _ in range(_WATCH_SAMPLES):
        notified.clear()
        started = time.perf_counter()
        await store.put(path, b"z")
        await notified.wait()
        delays.append(time.perf_counter() - started)
        await asyncio.sleep(0.1)
    watch.close()
    return {**found, "write to watch in another region": summary(delays)}
