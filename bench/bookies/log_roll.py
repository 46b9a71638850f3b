"""The benchmark of a log that continues in a new file on a bookie with very many ledgers.

The new file begins with the state of all ledgers, which are synthetic (see ``many_ledgers``). Large
entries fill the log at a steady rate, and small ones are added one after the other meanwhile.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ...core.bookie.log.file_set import DIRECTORIES
from ...core.bookie.log.log_format import LOG_KIND
from ...core.ledger.write.ledger_writer import LedgerWriter
from ...core.protocol.errors import UnavailableError
from ...core.protocol.quorum import Quorum
from ...core.runtime.tasks import Tasks
from ..harness.bookie_processes import BookieProcesses
from ..harness.load import NAMESPACE
from .many_ledgers import LAYOUTS, fill
from .one_add import SteadyAdds, add

SETTINGS = {"collect_ms": "24h"}
"""Settings of the bookie: no garbage collection, since the ledgers have no metadata."""

_FILLING = bytes(256 << 10)
_FILLING_BYTES_PER_S = 50_000_000
_AFTER_S = 3.0
"""Time after the new file was created in which the log is expected to continue there. Later the
sealed file is sorted, which another benchmark measures."""
_POLL_S = 0.05
_SECONDS_MAX = 600


async def measure_log_roll(
    servers: BookieProcesses, ledger_count: int
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row for the adds before the new file was created, and one for those afterwards.

    Raises UnavailableError if the log does not continue in a new file in ten minutes.
    """
    (directory,) = servers.directories
    servers.end(directory, signal.SIGTERM)
    await fill(directory, ledger_count, LAYOUTS["ledgers-apart"](ledger_count, ledger_count))
    servers.start(directory)
    async with servers.client(NAMESPACE) as client:
        adds = SteadyAdds(await client.ledgers.create(Quorum(1, 1, 1)))
        filled = await client.ledgers.create(Quorum(1, 1, 1))
        await add(filled, _FILLING)  # opens the connection
        log = directory / DIRECTORIES[LOG_KIND]
        newest, working = _newest(log), Tasks()
        try:
            working.spawn(adds.run(), "adds")
            working.spawn(_fill_log(filled), "filling")
            await _await_new_file(log, newest)
            yield adds.row("roll-before", ledger_count)
            await asyncio.sleep(_AFTER_S)
            yield adds.row("roll", ledger_count)
        finally:
            await working.aclose()


def _newest(folder: Path) -> int:
    return max(int(path.name.split(".")[0]) for path in folder.iterdir())


async def _fill_log(writer: LedgerWriter) -> None:
    """Add large entries at the rate, until cancelled. Raises the error of an entry that failed."""
    due_s = time.perf_counter()
    while True:
        await add(writer, _FILLING)
        due_s += len(_FILLING) / _FILLING_BYTES_PER_S
        await asyncio.sleep(max(0.0, due_s - time.perf_counter()))


async def _await_new_file(folder: Path, newest: int) -> None:
    deadline_s = time.perf_counter() + _SECONDS_MAX
    while _newest(folder) == newest:
        if time.perf_counter() > deadline_s:
            raise UnavailableError("the log continued in the same file for ten minutes")
        await asyncio.sleep(_POLL_S)
