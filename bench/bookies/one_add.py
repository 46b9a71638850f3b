"""Adding entries to a ledger, one after the other."""

import asyncio
import time
from typing import Any

from ...core.ledger.write.ledger_writer import LedgerWriter
from ...core.protocol.errors import RhumblineError
from ...core.runtime.histogram import Histogram
from ..harness.load import latencies

ENTRY = bytes(1024)
"""The entry of ``SteadyAdds``."""

_PAUSE_S = 0.002


async def add(writer: LedgerWriter, payload: bytes) -> None:
    """Add an entry and wait until it is acknowledged. Raises its error."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_done(_: int, error: RhumblineError | None, regions: tuple[str, ...]) -> None:
        del regions
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    writer.add(payload, on_done)
    await done


class SteadyAdds:
    """Adds entries one after the other, and notes how long each takes."""

    def __init__(self, writer: LedgerWriter) -> None:
        self._writer = writer
        self._latencies = Histogram()

    def row(self, name: str, ledger_count: int) -> dict[str, Any]:
        """Return a row of results with the quantiles since the last call, in ms."""
        found = latencies(self._latencies)
        self._latencies.clear()
        return {"w": name, "peer": "rhumbline-bookie", "ledgers": ledger_count, **found}

    async def run(self) -> None:
        """Add until cancelled. Raises the error of an entry that failed."""
        while True:
            began = time.perf_counter()
            await add(self._writer, ENTRY)
            self._latencies.add(time.perf_counter() - began)
            await asyncio.sleep(_PAUSE_S)
