"""Adding one entry to a ledger and waiting for it."""

import asyncio

from ...core.ledger.write.ledger_writer import LedgerWriter
from ...core.protocol.errors import RhumblineError


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
