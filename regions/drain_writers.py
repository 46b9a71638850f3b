"""Has live writers leave bookies that an operator drained or gave up.

A ledger keeps its ensemble for as long as it is written, and repair touches only what is settled.
So a drain would wait until each stream rolls by size or time. Instead, every process asks the
writers of its own that sit on such bookies to roll: the next segment is placed by the states of
that moment, and the closed one is repair's.

Bound: a writer begins to roll at most ``REREAD_MS``, one read of the metadata store, and
1/``LEAVE_PER_SECOND`` s for each writer of the process that leaves before it, after the command
returned. While there is no legal place for such a segment it is left alone.
"""

import asyncio

from ..core.ledger.client import LedgerClient
from ..core.ledger.write.ledger_writer import LedgerWriter
from ..core.protocol.errors import RhumblineError
from ..core.protocol.quorum import Quorum
from ..core.runtime.tasks import Tasks
from .repair.wakeup import Wakeup
from .states import REREAD_MS, State, States, StateStore

LEAVE_PER_SECOND = 200
"""Writers of one process that begin to roll: a drained region must not make a storm of new
ledgers."""

_AT_ONCE = 20


class DrainWriters:
    """Watches the states for the writers of ``client``. Close it before the client."""

    def __init__(self, states: StateStore, client: LedgerClient) -> None:
        self.asked = 0
        """How many times a writer was asked to leave."""
        self._states = states
        self._client = client
        self._bell = Wakeup()
        self._watch = states.watch(self._bell.ring)
        self._tasks = Tasks()
        self._tasks.spawn(self._run(), "leave drained bookies")

    async def aclose(self) -> None:
        """Asks nobody any more. Safe to repeat."""
        self._watch.close()
        await self._tasks.aclose()

    async def _run(self) -> None:
        while True:
            await self._bell.wait(REREAD_MS / 1000)
            if not self._client.writers():
                continue
            try:
                leaving = await self._who_leaves(await self._states.read())
            except RhumblineError:
                continue  # the store is away or the node is damaged: nobody moves by guesswork
            await self._ask(leaving)

    async def _who_leaves(self, states: States) -> list[LedgerWriter]:
        """Those that should leave and have somewhere to go."""
        leaving = []
        known: dict[tuple[Quorum, tuple[str, ...]], bool] = {}
        for writer in self._client.writers():
            if _should_leave(writer, states):
                demand = writer.view.quorum, writer.metadata.allowed_regions()
                if demand not in known:
                    known[demand] = await self._client.has_place(*demand)
                if known[demand]:
                    leaving.append(writer)
        return leaving

    async def _ask(self, leaving: list[LedgerWriter]) -> None:
        for first in range(0, len(leaving), _AT_ONCE):
            for writer in leaving[first : first + _AT_ONCE]:
                writer.leave()
                self.asked += 1
            await asyncio.sleep(_AT_ONCE / LEAVE_PER_SECOND)


def _should_leave(writer: LedgerWriter, states: States) -> bool:
    return any(
        states.of(replica.bookie, replica.region) in (State.DRAINED, State.OFFLINE)
        for replica in writer.replicas
    )
