"""The benchmark of draining a bookie that holds many small ledgers.

Each ledger has copies on three of four bookies. An audit reads the metadata of all ledgers and
compares the entry lists of their bookies; then one bookie is drained, so that the fourth one must
get what it holds. The repair process may be in another region than the bookies.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from ...chaos.managed_process import ManagedProcess
from ...client.connect import Client
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import UnavailableError
from ...core.protocol.quorum import Quorum
from ...core.runtime.tasks import run_all
from ...regions.states import PlacementState
from ..harness.bookie_processes import REGION, BookieProcesses, usage_of
from .one_add import add
from .repair_process import remaining_copies, repair_process, repair_status

BOOKIES = 4
VIEWER = "far"
"""The region of a repair process that is not where the bookies are."""
_QUORUM = Quorum(3, 3, 2)
_WRITTEN_AT_ONCE = 64
_POLL_S = 0.5
_NO_LIMIT = "10GiB"  # the rate limit of copying is not measured


async def measure_drain(
    servers: BookieProcesses,
    root: Path,
    ledger_count: int,
    entries_each: int,
    size: int,
    *,
    workers: int,
    repair_region: str = REGION,
    seconds_max: float,
) -> AsyncIterator[dict[str, Any]]:
    """Yield one row for each step: the ledgers are written and audited, and a bookie is drained.

    Raises UnavailableError if a step takes longer than ``seconds_max``.
    """
    async with Client(servers.metadata, region=REGION) as client:
        (leaving, *_) = [info.bookie for info in await client.directory.everything()]
        held = 0
        started = time.perf_counter()
        for first in range(0, ledger_count, _WRITTEN_AT_ONCE):
            count = min(_WRITTEN_AT_ONCE, ledger_count - first)
            writes = [_write(client, entries_each, size) for _ in range(count)]
            held += sum(leaving in bookies for bookies in await run_all(writes, "write ledgers"))
        yield _row("write", ledger_count, time.perf_counter() - started)
        options = ["--workers", str(workers), "--audit-interval", "10s"]
        options += ["--bytes-per-second", _NO_LIMIT]
        with repair_process(root, servers.metadata, repair_region, *options) as repair:
            step = _Step(servers, repair, seconds_max)

            async def has_audited() -> bool:
                return bool((await repair_status(repair))["audits"])

            async def is_drained() -> bool:
                if (await repair_status(repair))["repaired"]["ledgers"] < held:
                    return False
                return (await remaining_copies(client, leaving)).is_empty

            yield await step.row("audit", ledger_count, has_audited)
            await client.directory.states.change(
                lambda states: states.with_bookie(leaving, PlacementState.DRAINED)
            )
            yield await step.row("drain", held, is_drained)


class _Step:
    """Measures a step until it is done: its time, and what the processes use meanwhile."""

    def __init__(
        self, servers: BookieProcesses, repair: ManagedProcess, seconds_max: float
    ) -> None:
        self._servers = servers
        self._repair = repair
        self._seconds_max = seconds_max

    async def row(
        self, name: str, ledgers: int, is_done: Callable[[], Awaitable[bool]]
    ) -> dict[str, Any]:
        """Wait until the step is done. Raises UnavailableError if that takes too long."""
        started = time.perf_counter()
        bookies_s = self._servers.usage().server_cpu_s
        repair_s, _ = usage_of(self._repair.pid)
        while not await is_done():
            if time.perf_counter() - started > self._seconds_max:
                raise UnavailableError(f"{name}: not done after {self._seconds_max:.0f} s")
            await asyncio.sleep(_POLL_S)
        seconds = time.perf_counter() - started
        cpu_s, memory = usage_of(self._repair.pid)
        return {
            **_row(name, ledgers, seconds),
            "repair_cpu_s": round(cpu_s - repair_s, 2),
            "srv_cpu_s": round(self._servers.usage().server_cpu_s - bookies_s, 2),
            "repair_mib": memory >> 20,
        }


def _row(name: str, ledgers: int, seconds: float) -> dict[str, Any]:
    return {
        "w": name,
        "peer": "rhumbline",
        "ledgers": ledgers,
        "seconds": round(seconds, 1),
        "ledgers_s": round(ledgers / seconds, 1),
    }


async def _write(client: Client, entries: int, size: int) -> tuple[BookieId, ...]:
    """Write a ledger and return its bookies. Raises the error of a failed entry."""
    writer = await client.ledgers.create(_QUORUM)
    for _ in range(entries):
        await add(writer, bytes(size))
    return tuple((await writer.close()).bookies())
