"""The benchmark of a lost bookie: repair time, bytes copied, and the effect on writers.

Three regions with one bookie each hold one copy of the data. A spare bookie starts in the region of
the bookie that is then killed. A repair process copies the data while writers append at a fixed
rate.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...chaos.managed_process import ManagedProcess
from ...client.connect import Client
from ...core.ledger.config import LedgerConfig
from ...core.log.policy import FlushPolicy, StreamPolicy
from ...core.log.write.stream_writer import StreamWriter
from ...core.protocol.bookie_id import BookieId, bookie_name
from ...core.protocol.errors import UnavailableError
from ...core.protocol.quorum import Quorum
from ...regions.repair.task_store import TaskStore
from ..harness.load import NAMESPACE, ensure_namespace, latencies
from ..harness.region_processes import RegionProcesses
from ..regions import RegionWorkload, RegionWriters
from .repair_process import remaining_copies, repair_process, repair_status

QUORUM = Quorum(3, 3, 2, 2)
REGIONS = ("a", "b", "c")
_FILL_STREAMS = 8
_FILL_RECORD_BYTES = 64 << 10
_FILL_WINDOW = 32
_ROLL_BYTES = 64 << 20
_POLL_SECONDS = 0.5
_REPORTS_SECONDS = 10  # five intervals of the audit
_WARMUP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LossWorkload:
    """The size of the lost data, the limits of its repair, and the load of the writers.

    ``bytes_held`` is the payload that the lost bookie holds.
    """

    bytes_held: int
    bytes_per_second: int
    streams: int
    rate: int
    seconds: float
    seconds_max: float
    replace_after_ms: int
    """Time after which a writer replaces an unavailable bookie."""


async def measure_loss(
    servers: RegionProcesses, root: Path, work: LossWorkload
) -> AsyncIterator[dict[str, Any]]:
    """Yield rows for the fill and for the writers before, during and after the repair.

    Raises UnavailableError if the repair takes longer than ``seconds_max``.
    """
    ledger = LedgerConfig(underreplicated_ms_max=work.replace_after_ms)
    client = Client(servers.metadata, namespace=NAMESPACE, region=REGIONS[0], ledger=ledger)
    async with client:
        started = time.perf_counter()
        await _fill(client, work.bytes_held)
        yield {
            "w": "fill",
            "peer": "rhumbline",
            "seconds": round(time.perf_counter() - started, 1),
            "bytes": work.bytes_held,
        }
        await asyncio.to_thread(servers.start, servers.spares[0])
        writing = RegionWorkload(
            "meanwhile", QUORUM, 0, work.streams, 1024, work.rate, work.seconds, _WARMUP_SECONDS,
            cuts_region=False,
        )  # fmt: skip
        writers = RegionWriters(servers, client, writing)
        await writers.open()
        try:
            with repair_process(
                root, servers.metadata, REGIONS[1], "--lost-after", "2s", "--audit-interval", "2s",
                "--bytes-per-second", str(work.bytes_per_second),
            ) as repair:  # fmt: skip
                await writers.measure("rate", 1)
                yield _row("before", writers)
                victim = servers.directories[-1]
                found: dict[str, Any] = {}

                async def lose() -> None:
                    found.update(await _lose(client, servers, victim, repair, work.seconds_max))

                await writers.measure("rate", 1, lose)
                yield _row("during", writers) | found
                await writers.measure("rate", 1)
                yield _row("after", writers)
            yield {
                "w": "read-back",
                "peer": "rhumbline",
                "seconds": 0,
                "records": await writers.check(),
            }
        finally:
            await writers.abort()


def _row(name: str, writers: RegionWriters) -> dict[str, Any]:
    return {
        "w": name,
        "peer": "rhumbline",
        "appends": writers.acks.count,
        **latencies(writers.acks),
    }


async def _fill(client: Client, total: int) -> None:
    policy = StreamPolicy(quorum=QUORUM, flush=FlushPolicy(period_ms=10), roll_bytes=_ROLL_BYTES)
    await ensure_namespace(client, policy)
    payload = os.urandom(_FILL_RECORD_BYTES)
    each = max(1, total // _FILL_STREAMS // _FILL_RECORD_BYTES)

    async def fill_one(number: int) -> None:
        name = f"fill-{number}"
        await client.namespace().create_stream(name, policy)
        async with await client.namespace().open_writer(name) as writer:
            await _fill_stream(writer, payload, each)

    await asyncio.gather(*map(fill_one, range(_FILL_STREAMS)))


async def _fill_stream(writer: StreamWriter, payload: bytes, count: int) -> None:
    for first in range(0, count, _FILL_WINDOW):
        await writer.room()
        tickets = [writer.append(payload) for _ in range(min(_FILL_WINDOW, count - first))]
        await tickets[-1]


async def _lose(
    client: Client,
    servers: RegionProcesses,
    victim: Path,
    repair: ManagedProcess,
    seconds_max: float,
) -> dict[str, Any]:
    """Kill the bookie and wait until no ledger names it."""
    bookies = await client.directory.all_known()
    (bookie,) = [bookie for bookie in bookies if bookie_name(bookie) == victim.name]
    before = await repair_status(repair)
    started = time.perf_counter()
    servers.end(victim, signal.SIGKILL)
    settled_at = await _await_repair(client, bookie, started + seconds_max)
    ended_at = time.perf_counter()
    after = await _status_after(repair)
    moved = after["repaired"]["bytes"] - before["repaired"]["bytes"]
    return {
        "seconds": round(settled_at - started, 1),
        "open_ledgers_too_seconds": round(ended_at - started, 1),
        "moved_bytes": moved,
        "moved_MB_s": round(moved / (settled_at - started) / 1e6, 1),
        "entries_at_risk": after["entries_at_risk"],
    }


async def _status_after(repair: ManagedProcess) -> dict[str, Any]:
    """Return the status after a report that includes the end of the repair.

    That is the status without entries at risk, or the last one within the time of a few audits.
    """
    deadline = time.perf_counter() + _REPORTS_SECONDS
    while True:
        status = await repair_status(repair)
        if not any(status["entries_at_risk"].values()) or time.perf_counter() > deadline:
            return status
        await asyncio.sleep(_POLL_SECONDS)


async def _await_repair(client: Client, lost: BookieId, deadline: float) -> float:
    """Wait until no ledger names the bookie.

    Returns the time at which this was the case for all ledgers but those being written.
    """
    tasks = TaskStore(client.store)
    settled_at: float | None = None
    while True:
        found = await remaining_copies(client, lost)
        if settled_at is None and not found.entries:
            settled_at = time.perf_counter()
        if found.is_empty and not await tasks.ids():
            assert settled_at is not None
            return settled_at
        if time.perf_counter() > deadline:
            raise UnavailableError(
                f"repair not finished: {found.copies} copies missing, {found.blocked[:3]}"
            )
        await asyncio.sleep(_POLL_SECONDS)
