"""The benchmark of writers and tailing readers beside readers that catch up from disk."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from ...client.connect import Client
from ...core.runtime.tasks import Tasks
from ..harness.bookie_processes import BookieProcesses
from ..harness.load import NAMESPACE
from ..harness.workload import BenchWorkload
from ..readers.page_cache import drop_cached
from .catch_up_process import CatchUpProcess, CatchUpReader
from .foreground import QUIET, Mode, Row, measure_beside
from .stored_entries import store_entries

_SETTLE_SECONDS = 1.0
_DROP_SECONDS = 0.25
_ALONE_SECONDS = 3.0
_LEDGERS = 8


async def measure_catch_up_readers(
    servers: BookieProcesses,
    workloads: Sequence[BenchWorkload],
    counts: Sequence[int],
    *,
    bytes_held: int,
    entry_size: int,
    seconds: float,
    repetitions: int,
) -> AsyncIterator[Row]:
    """Yield rows for the readers alone, then for each workload, quiet and beside the readers.

    ``bytes_held`` is what each bookie holds of the entries that are read.
    """
    async with servers.client(NAMESPACE) as client:
        found = await _reader_settings(client, bytes_held, entry_size)
    modes = [QUIET]
    for is_cold, count in itertools.product((False, True), counts):
        name = f"{count}-{'cold' if is_cold else 'warm'}"
        readers = [found[number % len(found)] for number in range(count)]
        modes.append(Mode(name, partial(_reading, servers, readers, name, is_cold)))
    for mode in modes[1:]:
        row: Row = {"w": "readers", "peer": "rhumbline", "beside": mode.name, "rep": 0}
        async with mode.enter(row):
            await asyncio.sleep(_ALONE_SECONDS)
        yield {**row, "seconds": _ALONE_SECONDS}
    for workload in workloads:
        async for row in measure_beside(servers, workload, modes, seconds, repetitions):
            yield row


async def _reader_settings(client: Client, bytes_held: int, entry_size: int) -> list[CatchUpReader]:
    """Store the entries, and return a reader for each pair of bookie and ledger."""
    ledgers = await store_entries(client, _LEDGERS, bytes_held // _LEDGERS, entry_size)
    infos = await client.directory.everything()
    addresses = [(await client.directory.registration(info.bookie)).address for info in infos]
    return [
        CatchUpReader(address.host, address.port, ledger.ledger_id, ledger.last_entry)
        for ledger in ledgers
        for address in addresses
    ]


@asynccontextmanager
async def _reading(
    servers: BookieProcesses,
    readers: Sequence[CatchUpReader],
    name: str,
    is_cold: bool,
    row: Row,
) -> AsyncIterator[None]:
    """Let the readers read, and add their throughput and its spread to ``row``."""
    tasks = Tasks()
    if is_cold:
        tasks.spawn(_drop_repeatedly(servers), "drop the page cache")
    with CatchUpProcess(servers.root, f"readers-{name}", readers) as process:
        try:
            await asyncio.sleep(_SETTLE_SECONDS)
            before, since = await process.received(), time.perf_counter()
            yield
            after, seconds = await process.received(), time.perf_counter() - since
        finally:
            await tasks.aclose()
    rates = sorted((b - a) / seconds / 1e6 for a, b in zip(before, after, strict=True))
    row["readers_MB_s"] = round(sum(rates), 1)
    row["slowest_reader_MB_s"] = round(rates[0], 2)
    row["fastest_reader_MB_s"] = round(rates[-1], 2)


async def _drop_repeatedly(servers: BookieProcesses) -> None:
    while True:
        await asyncio.to_thread(drop_cached, servers.directories)
        await asyncio.sleep(_DROP_SECONDS)
