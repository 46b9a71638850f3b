"""Entries that are stored before a measurement: what catch-up readers read and compaction moves."""

import asyncio
import os
from dataclasses import dataclass

from ...client.connect import Client
from ...core.protocol.errors import RhumblineError
from ...core.protocol.quorum import Quorum

_QUORUM = Quorum(3, 3, 3)
_PENDING_MAX = 1_000
_CONFIRM_SECONDS_MAX = 60


@dataclass(frozen=True, slots=True)
class StoredLedger:
    """A ledger that every bookie holds, and its last entry."""

    ledger_id: int
    last_entry: int


async def store_entries(
    client: Client, ledger_count: int, bytes_each: int, entry_size: int
) -> list[StoredLedger]:
    """Write entries of ``entry_size`` bytes to each of ``ledger_count`` ledgers in turn.

    Raises the error of a failed entry.
    """
    writers = [await client.ledgers.create(_QUORUM) for _ in range(ledger_count)]
    payload = os.urandom(entry_size)
    pending = _Pending()
    last = -1
    for _ in range(max(1, bytes_each // entry_size)):
        for writer in writers:
            await pending.wait_below(_PENDING_MAX)
            last = writer.add(payload, pending.on_done)
            pending.count += 1
    await pending.wait_below(1)
    for writer in writers:
        await writer.close()
    return [StoredLedger(writer.ledger_id, last) for writer in writers]


class _Pending:
    """The entries that are not confirmed yet."""

    def __init__(self) -> None:
        self.count = 0
        self._failure: RhumblineError | None = None
        self._confirmed = asyncio.Event()

    def on_done(self, _: int, error: RhumblineError | None, regions: tuple[str, ...]) -> None:
        del regions
        self.count -= 1
        self._failure = self._failure or error
        self._confirmed.set()

    async def wait_below(self, count: int) -> None:
        """Wait until fewer entries are pending. Raises the error of a failed entry."""
        while self.count >= count:
            self._confirmed.clear()
            async with asyncio.timeout(_CONFIRM_SECONDS_MAX):
                await self._confirmed.wait()
        if self._failure is not None:
            raise self._failure
