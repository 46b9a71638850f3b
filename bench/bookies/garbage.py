"""The benchmark of garbage collection on a bookie with very many ledgers.

The ledgers are synthetic (see ``many_ledgers``), and all but each hundredth have metadata. A
collection compares all of them with the metadata and deletes the others. Meanwhile entries are
added to another ledger of the bookie, one after the other.
"""

import asyncio
import re
import signal
import time
from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path
from typing import Any

from ...client.connect import Client
from ...core.metadata.cluster_layout import Paths
from ...core.protocol.errors import UnavailableError
from ...core.protocol.ledger_metadata import LedgerMetadata
from ...core.protocol.quorum import Quorum
from ...core.runtime.metadata_store import TXN_OPERATIONS_MAX, Create
from ...core.runtime.tasks import Tasks, run_all
from ...core.wire.ledger_metadata import encode
from ..harness.bookie_processes import BookieProcesses, usage_of
from ..harness.load import NAMESPACE
from .many_ledgers import LAYOUTS, fill, ledgers_of
from .one_add import ENTRY, SteadyAdds

SETTINGS = {"maintenance_ms": "10s", "collect_percent_max": "100"}
"""Settings of the bookie: its first collection begins ten seconds after its start."""

_GARBAGE_EVERY = 100
_QUIET_S = 5.0
_POLL_S = 0.5
_SECONDS_MAX = 1_800
_TRANSACTIONS_AT_ONCE = 8
_COLLECTED = re.compile(r"garbage collected .*ledgers=(\d+) .*duration_ms=(\d+)")


async def measure_garbage(
    servers: BookieProcesses, ledger_count: int
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row for the adds before the collection, and one for it and the adds meanwhile.

    Raises UnavailableError if the collection does not end in half an hour.
    """
    (directory,) = servers.directories
    async with servers.client(NAMESPACE) as client:
        writer = await client.ledgers.create(Quorum(1, 1, 1))
        await _write_metadata(client, writer.metadata, ledger_count)
        servers.end(directory, signal.SIGTERM)
        await fill(directory, ledger_count, LAYOUTS["ledgers-apart"](ledger_count, ledger_count))
        servers.start(directory)
        pid, adds = servers.pid(directory), SteadyAdds(await client.ledgers.create(Quorum(1, 1, 1)))
        adding = Tasks()
        try:
            adding.spawn(adds.run(), "adds")
            await asyncio.sleep(_QUIET_S)
            yield adds.row("garbage-before", ledger_count)
            before_s, _ = usage_of(pid)
            deleted, seconds = await _await_collection(directory.with_suffix(".log"))
            cpu_s = usage_of(pid)[0] - before_s
            yield {
                **adds.row("garbage", ledger_count),
                "deleted": deleted,
                "collect_s": seconds,
                "srv_cpu_s": round(cpu_s, 2),
            }
        finally:
            await adding.aclose()


async def _write_metadata(client: Client, like: LedgerMetadata, ledger_count: int) -> None:
    """Write metadata for the ledgers that are not garbage: that of ``like``, closed."""
    data = encode(like.closed(0, len(ENTRY)))
    paths = Paths()
    kept = (
        Create(paths.ledger(ledger_id), data)
        for number, ledger_id in enumerate(ledgers_of(ledger_count))
        if number % _GARBAGE_EVERY
    )
    while batches := [
        batch
        for _ in range(_TRANSACTIONS_AT_ONCE)
        if (batch := list(islice(kept, TXN_OPERATIONS_MAX)))
    ]:
        await run_all([client.store.txn(batch) for batch in batches], "ledger metadata")


async def _await_collection(log: Path) -> tuple[int, float]:
    """Return the number of ledgers that were deleted, and the seconds that it took."""
    deadline = time.perf_counter() + _SECONDS_MAX
    while time.perf_counter() < deadline:
        found = _COLLECTED.search(await asyncio.to_thread(log.read_text))
        if found is not None:
            return int(found[1]), int(found[2]) / 1000
        await asyncio.sleep(_POLL_S)
    raise UnavailableError("no garbage was collected in half an hour")
