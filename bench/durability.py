"""The cost of the durability report: CPU seconds and memory with many ledgers.

Production code runs on a metadata store in memory: no process, disk or network takes part.
``TOPOLOGIES`` has a usual case, in which many ledgers share their bookies, and the worst one, in
which hardly any two do.
"""

import asyncio
import gc
import resource
import time
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from ..backends.memory import MemorySession, MemoryStore
from ..core.metadata.cluster_layout import Paths, initialise_cluster
from ..core.metadata.ledger_store import LedgerStore
from ..core.protocol.bookie_id import BookieId, Region
from ..core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from ..core.protocol.quorum import Quorum
from ..core.wire.cookie import Cookie
from ..core.wire.ledger_metadata import encode
from ..core.wire.registration import RACK, Registration
from ..regions.durability.judgement import CopyVerdict
from ..regions.durability.monitor import DurabilityMonitor
from ..regions.ledger_scan import all_ledgers
from ..regions.steered_directory import SteeredDirectory

TOPOLOGIES = (
    ("shared", Quorum(3, 3, 2, 2), 12),
    ("distinct", Quorum(6, 3, 2, 2), 60),
)
"""Names, quorums, and the numbers of bookies in three regions."""

_REGIONS = 3
_LEDGERS_PER_STREAM = 20
_OPEN_EVERY = 20
_ENTRIES = 5_000


async def measure_report(ledgers: int) -> AsyncIterator[dict[str, Any]]:
    """Yield CPU milliseconds of each step, and the memory of the index, for each topology."""
    for name, quorum, bookies in TOPOLOGIES:
        cluster = _Cluster(quorum, bookies)
        await cluster.fill(ledgers)
        yield {
            "layouts": name,
            "quorum": str(quorum),
            "ledgers": ledgers,
            **await cluster.measure(),
        }


class _Cluster:
    """A store with bookies, each with a session of its own, and ledgers."""

    def __init__(self, quorum: Quorum, bookies: int) -> None:
        self._quorum = quorum
        self._store = MemoryStore()
        self._ids = [BookieId(f"b{number}@00000001") for number in range(bookies)]
        self._sessions: dict[BookieId, MemorySession] = {}
        self._random = Random(1)

    async def fill(self, ledgers: int) -> None:
        """Register the bookies, and write the metadata of the ledgers."""
        await initialise_cluster(self._store, self._random)
        directory = SteeredDirectory(self._store)
        for number, bookie in enumerate(self._ids):
            session = self._sessions[bookie] = await self._store.session(3_600_000)
            await directory.record_region(bookie, Region(f"r{number % _REGIONS}"))
            await directory.write_cookie(Cookie(bookie, "journal", ("ledgers",), "bench"))
            rack = f"rack-{number // _REGIONS % 10}"
            registration = Registration(bookie, f"host-{number}", 1, {RACK: rack})
            await directory.register(session, registration)
        directory.close()
        for ledger_id in range(ledgers):
            data = encode(self._ledger(ledger_id))
            await self._store.create(Paths().ledger(ledger_id), data)

    def _ledger(self, ledger_id: int) -> LedgerMetadata:
        quorum, is_open = self._quorum, ledger_id % _OPEN_EVERY == 0
        regions = [self._ids[number::_REGIONS] for number in range(_REGIONS)]
        each = quorum.ensemble_size // _REGIONS
        chosen = [self._random.sample(bookies, each) for bookies in regions]
        members = tuple(bookie for several in zip(*chosen, strict=True) for bookie in several)
        stream = b"stream-%d" % (ledger_id // _LEDGERS_PER_STREAM)
        return LedgerMetadata(
            ledger_id,
            quorum.ensemble_size,
            quorum.write_quorum,
            quorum.ack_quorum,
            (Fragment(0, members),),
            state=LedgerState.OPEN if is_open else LedgerState.CLOSED,
            last_entry_id=-1 if is_open else _ENTRIES - 1,
            length=0 if is_open else _ENTRIES * 1000,
            custom={"rhumbline.namespace": b"default", "rhumbline.stream": stream},
        ).with_r(0, quorum.min_regions)

    async def measure(self) -> dict[str, Any]:
        """Measure an audit, a second one, and reports after changes."""
        found: dict[str, Any] = {}
        directory = SteeredDirectory(self._store)
        monitor = DurabilityMonitor(directory, interval_ms=10_000, stale_after_ms=300_000)
        gc.collect()
        before = _resident_mib()
        ledgers = LedgerStore(self._store)
        began = time.process_time()
        async for _ in all_ledgers(ledgers):
            pass
        found["read ms"] = _since(began)
        for key in ("first index ms", "next index ms"):
            monitor.begin_scan()
            spent = 0.0
            async for metadata, version in all_ledgers(ledgers):
                began = time.process_time()
                monitor.note(metadata, version)
                spent += time.process_time() - began
            began = time.process_time()
            monitor.end_scan(0)
            found[key] = round(1000 * (spent + time.process_time() - began))
        found["index MiB"] = round(_resident_mib() - before)
        for key in ("first report ms", "same report ms"):
            found[key], _ = await _report(monitor)
        self._store.expire_session(self._sessions[self._ids[0]])
        found["bookie down ms"], found["longest pause ms"] = await _report(monitor)
        found["groups"] = monitor.group_count
        found["peak MiB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        assert monitor.report is not None
        reduced = monitor.report.ledgers_with([CopyVerdict.REDUCED])
        assert 0 < reduced < len(self._ids) * monitor.report.ledgers_with(CopyVerdict)
        found["reduced"] = reduced
        directory.close()
        return found


async def _report(monitor: DurabilityMonitor) -> tuple[int, int]:
    """Return the CPU time of a report, and the most of it that other tasks waited for at once."""
    pauses: list[float] = []

    async def tick() -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            pauses.append(time.process_time() - last)
            last = time.process_time()

    ticking = asyncio.ensure_future(tick())
    await asyncio.sleep(0)
    began = time.process_time()
    await monitor.refresh(())
    spent = _since(began)
    ticking.cancel()
    return spent, round(1000 * max(pauses, default=0))


def _since(began: float) -> int:
    return round(1000 * (time.process_time() - began))


def _resident_mib() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20
