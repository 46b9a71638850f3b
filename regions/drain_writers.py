"""Moves live writers away from bookies that an operator drained or declared offline (PLC-19,
RPR-15).

A ledger keeps its ensemble while it is written, and repair touches only settled entries. A drain
would therefore wait until each stream rolls by size or time. Instead every process asks its own
writers on such bookies to roll: the next segment is placed by the states of that moment, and the
closed one is repaired.

Bound: a writer begins to roll at most ``REREAD_MS``, one read of the metadata store, and
1/``ROLLS_PER_SECOND`` s for each writer of the process before it, after the command returned. If
there is no legal ensemble for a new segment, its writer is left alone.
"""

from ..core.ledger.client import LedgerClient
from ..core.ledger.write.ledger_writer import LedgerWriter
from ..core.protocol.errors import RhumblineError
from ..core.runtime.event_log import EventLog
from ..core.runtime.primitives.rate_limiter import RateLimiter
from ..core.runtime.primitives.wakeup import Wakeup
from ..core.runtime.tasks import Tasks
from .states import REREAD_MS, PlacementState, PlacementStates, PlacementStateStore

_LOG = EventLog(__name__)

ROLLS_PER_SECOND = 200
"""Rate at which the writers of one process begin to roll, so that draining a region does not create
a burst of new ledgers."""

_BURST = 20


class WriterDrainer:
    """Watches the placement states for the writers of ``client``. Close it before the client."""

    def __init__(self, states: PlacementStateStore, client: LedgerClient) -> None:
        self.rolled_count = 0
        """Number of times that a writer was asked to roll."""
        self._states = states
        self._client = client
        self._wakeup = Wakeup()
        self._watch = states.watch(self._wakeup.wake)
        self._rate_limiter = RateLimiter(ROLLS_PER_SECOND, burst=_BURST)
        self._tasks = Tasks()
        self._tasks.spawn(self._run(), "leave drained bookies")

    async def aclose(self) -> None:
        """Stop asking writers to roll. Safe to repeat."""
        self._watch.close()
        await self._tasks.aclose()

    async def _run(self) -> None:
        while True:
            await self._wakeup.wait(REREAD_MS / 1000)
            if not self._client.writers():
                continue
            try:
                leaving = await self._find_writers_to_roll(await self._states.read())
            except RhumblineError:
                continue  # states unknown (store unavailable or node damaged): nothing rolls
            await self._roll_all(leaving)

    async def _find_writers_to_roll(self, states: PlacementStates) -> list[LedgerWriter]:
        """Return the writers on bookies closed to new data that can move to another ensemble."""
        leaving = []
        known: dict[tuple[object, ...], bool] = {}
        for writer in self._client.writers():
            if _must_roll(writer, states):
                quorum, allowed = writer.view.quorum, writer.metadata.allowed_regions()
                rule = writer.metadata.spread_rule()
                demand = quorum, allowed, tuple(rule.items())
                if demand not in known:
                    known[demand] = await self._client.can_create(quorum, allowed, rule)
                if known[demand]:
                    leaving.append(writer)
        return leaving

    async def _roll_all(self, leaving: list[LedgerWriter]) -> None:
        for writer in leaving:
            await self._rate_limiter.acquire(1)
            _LOG.info("ledger drain requested", ledger=writer.metadata.ledger_id)
            writer.request_drain()
            self.rolled_count += 1


def _must_roll(writer: LedgerWriter, states: PlacementStates) -> bool:
    return any(
        states.of(replica.bookie, replica.region)
        in (PlacementState.DRAINED, PlacementState.OFFLINE)
        for replica in writer.replicas
    )
