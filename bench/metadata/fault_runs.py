"""Faults of metadata stores under writers: the gap, the errors, and what was lost.

Writers increment counters by compare-and-set. A write that was acknowledged must be in the counter,
and a counter must not be above the acknowledged writes and those of unknown outcome.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from ...backends.open_store import open_store
from ...core.protocol.errors import BadVersionError, IndeterminateError, MetadataUnavailableError
from ...core.runtime.metadata_store import MetadataStore
from .ensembles import Ensemble, running_ensemble

_WRITERS = 4
_TIMEOUT_MS = 2_000
_BEFORE_S = 1.0
_RESUME_S_MAX = 60
_AFTER_WRITES = 20

Fault = Callable[[], Awaitable[None]]


class CounterWriters:
    """Writers of counters, each with the times and outcomes of its writes."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.acknowledged = [0] * _WRITERS
        self.unknown = [0] * _WRITERS
        self.unavailable = 0
        self.longest_gap_s = 0.0
        self.is_stopped = False
        self._progress = asyncio.Event()

    async def prepare(self) -> None:
        """Create the counters."""
        for writer in range(_WRITERS):
            await self._store.create(f"/counters/{writer}", b"0")

    async def run(self, writer: int) -> None:
        """Increment a counter until stopped."""
        path = f"/counters/{writer}"
        last = time.perf_counter()
        while not self.is_stopped:
            try:
                value = await self._store.get(path)
                await self._store.put(path, b"%d" % (int(value.data) + 1), expect=value.version)
            except IndeterminateError:
                self.unknown[writer] += 1
            except MetadataUnavailableError:
                self.unavailable += 1
                await asyncio.sleep(0.005)
            except BadVersionError:
                continue  # a write of unknown outcome took effect after this read
            else:
                self.acknowledged[writer] += 1
                self._progress.set()
                now = time.perf_counter()
                self.longest_gap_s = max(self.longest_gap_s, now - last)
                last = now

    async def wait_for_more(self) -> None:
        """Wait until every writer has written again several times."""
        wanted = [count + _AFTER_WRITES for count in self.acknowledged]
        for writer, count in enumerate(wanted):
            while self.acknowledged[writer] < count:
                self._progress.clear()
                await self._progress.wait()

    async def row(self, store: MetadataStore) -> dict[str, Any]:
        """Return the results, with the counters as ``store`` reads them."""
        lost = doubled = 0
        for writer in range(_WRITERS):
            found = int((await store.get(f"/counters/{writer}")).data)
            lost += max(0, self.acknowledged[writer] - found)
            doubled += max(0, found - self.acknowledged[writer] - self.unknown[writer])
        return {
            "gap_ms": round(self.longest_gap_s * 1000),
            "acknowledged": sum(self.acknowledged),
            "unavailable": self.unavailable,
            "unknown": sum(self.unknown),
            "lost": lost,
            "doubled": doubled,
        }


async def measure_fault(uri: str, checked_uri: str, fault: Fault) -> dict[str, Any]:
    """Write through ``uri`` while ``fault`` runs, then check the counters through ``checked_uri``.

    ``fault`` returns when the fault is over. Writing then goes on until every writer has written.
    """
    store = await open_store(uri, timeout_ms=_TIMEOUT_MS)
    try:
        writers = CounterWriters(store)
        await writers.prepare()
        tasks = [asyncio.create_task(writers.run(writer)) for writer in range(_WRITERS)]
        try:
            await asyncio.sleep(_BEFORE_S)
            await fault()
            async with asyncio.timeout(_RESUME_S_MAX):
                await writers.wait_for_more()
        finally:
            writers.is_stopped = True
            await asyncio.gather(*tasks)
    finally:
        await store.close()
    fresh = await open_store(checked_uri, timeout_ms=_TIMEOUT_MS * 5)
    try:
        return await writers.row(fresh)
    finally:
        await fresh.close()


async def measure_ensemble_faults(
    kind: str, folder: Path, lasts_s: float
) -> dict[str, dict[str, Any]]:
    """Return a row for each fault of an ensemble of three, each with new servers."""
    found = {}
    for name, fault_of in _ENSEMBLE_FAULTS.items():
        below = folder / name.replace(" ", "-")
        below.mkdir()
        async with running_ensemble(kind, below, 3) as ensemble:
            fault = await fault_of(ensemble, lasts_s)
            found[name] = await measure_fault(ensemble.uri(), ensemble.uri(is_direct=True), fault)
    return found


async def measure_sqlite_faults(folder: Path, lasts_s: float) -> dict[str, dict[str, Any]]:
    """Return a row for each fault of a SQLite file."""
    path = folder / "faults.db"
    uri = f"sqlite://{path}"

    async def lock() -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            await asyncio.sleep(lasts_s)

    return {"file locked by another process": await measure_fault(uri, uri, lock)}


async def _leader_killed(ensemble: Ensemble, lasts_s: float) -> Fault:
    leader = (await ensemble.leader()).program

    async def fault() -> None:
        leader.kill()
        await asyncio.sleep(lasts_s)
        leader.launch()
        await asyncio.to_thread(leader.wait_ready)

    return fault


async def _leader_stopped(ensemble: Ensemble, lasts_s: float) -> Fault:
    leader = await ensemble.leader()

    async def fault() -> None:
        async with _paused(ensemble, leader.region):
            await asyncio.sleep(lasts_s)

    return fault


async def _majority_stopped(ensemble: Ensemble, lasts_s: float) -> Fault:
    leader = await ensemble.leader()
    other = next(member for member in ensemble.members if member is not leader)

    async def fault() -> None:
        async with _paused(ensemble, leader.region, other.region):
            await asyncio.sleep(lasts_s)

    return fault


async def _clients_cut_off(ensemble: Ensemble, lasts_s: float) -> Fault:
    async def fault() -> None:
        for relay in ensemble.clients.values():
            relay.cut()
        await asyncio.sleep(lasts_s)
        for relay in ensemble.clients.values():
            relay.heal()

    return fault


async def _connections_reset(ensemble: Ensemble, lasts_s: float) -> Fault:
    async def fault() -> None:
        for relay in ensemble.clients.values():
            relay.reset()

    return fault


@asynccontextmanager
async def _paused(ensemble: Ensemble, *regions: str) -> AsyncIterator[None]:
    programs = [member.program for member in ensemble.members if member.region in regions]
    for program in programs:
        program.pause()
    try:
        yield
    finally:
        for program in programs:
            program.resume()


_ENSEMBLE_FAULTS: dict[str, Callable[[Ensemble, float], Awaitable[Fault]]] = {
    "leader of three killed": _leader_killed,
    "leader of three stopped (SIGSTOP)": _leader_stopped,
    "majority stopped (SIGSTOP)": _majority_stopped,
    "path of the client cut": _clients_cut_off,
    "connections reset": _connections_reset,
}
