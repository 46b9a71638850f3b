"""Moves live writers away from bookies that an operator drained or declared offline (PLC-19,
RPR-15), and from ledgers that a roll was requested for (RPR-22).

A ledger keeps its ensemble while it is written, and repair touches only settled entries. A drain
would therefore wait until each stream rolls by size or time. Instead every process asks its own
writers on such bookies to roll: the next segment is placed by the states of that moment, and the
closed one is repaired.

Bound: after the command has returned, a writer begins to roll within ``REREAD_MS``, a few reads of
the metadata store, and 1/``ROLLS_PER_SECOND`` s for each writer of the process before it. If there
is no legal ensemble for a new segment, its writer is left alone, and answers a request with this
reason. A writer whose roll takes longer than one pass answers that too: the answers show that it is
alive.
"""

from ..core.ledger.client import LedgerClient
from ..core.ledger.write.ledger_writer import LedgerWriter
from ..core.protocol.errors import RhumblineError
from ..core.runtime.event_log import EventLog
from ..core.runtime.primitives.rate_limiter import RateLimiter
from ..core.runtime.primitives.slices import slices
from ..core.runtime.primitives.wakeup import Wakeup
from ..core.runtime.tasks import Tasks
from .ownerless.roll_requests import RollRequests
from .states import REREAD_MS, PlacementState, PlacementStates, PlacementStateStore

_LOG = EventLog(__name__)

ROLLS_PER_SECOND = 200
"""Rate at which the writers of one process begin to roll, so that draining a region does not create
a burst of new ledgers."""

_BURST = 20
_SLICE_COUNT = 500
"""Writers that are looked at before the event loop serves others: about a millisecond."""


class WriterDrainer:
    """Follows states and roll requests for the writers of a client. Close it before the client."""

    def __init__(
        self, states: PlacementStateStore, rolls: RollRequests, client: LedgerClient
    ) -> None:
        self.rolled_count = 0
        """Number of times that a writer was asked to roll."""
        self._states = states
        self._rolls = rolls
        self._client = client
        self._asked: dict[int, None] = {}
        """Ledgers whose writers were asked in the pass before."""
        self._wakeup = Wakeup()
        self._watches = (states.watch(self._wakeup.wake), rolls.watch(self._wakeup.wake))
        self._rate_limiter = RateLimiter(ROLLS_PER_SECOND, burst=_BURST)
        self._tasks = Tasks()
        self._tasks.spawn(self._run(), "leave drained bookies")

    async def aclose(self) -> None:
        """Stop asking writers to roll. Safe to repeat."""
        for watch in self._watches:
            watch.close()
        await self._tasks.aclose()

    async def _run(self) -> None:
        while True:
            await self._wakeup.wait(REREAD_MS / 1000)
            writers = [writer for writer in self._client.writers() if not writer.is_failed]
            if not writers:
                continue
            try:
                await self._roll_and_answer(writers)
            except RhumblineError:
                continue  # states or requests unknown (store unavailable or node damaged)

    async def _roll_and_answer(self, writers: list[LedgerWriter]) -> None:
        states = await self._states.read()
        requested = dict.fromkeys(await self._rolls.ledger_ids())
        concerned: list[LedgerWriter] = []
        if requested or states.regions or states.bookies:
            async for some in slices(writers, _SLICE_COUNT):
                concerned += [
                    writer
                    for writer in some
                    if writer.metadata.ledger_id in requested or _must_roll(writer, states)
                ]
        leaving, staying = await self._divide(concerned)
        asked_before = self._asked
        self._asked = {}
        await self._roll_all(leaving)
        for writer in staying:
            if writer.metadata.ledger_id in requested:
                text = f"its writer stays: {writer.view.quorum} has no legal ensemble elsewhere"
                await self._answer(writer, text)
        for writer in leaving:
            ledger_id = writer.metadata.ledger_id
            if ledger_id in requested and ledger_id in asked_before and not writer.is_failed:
                await self._answer(writer, "its writer is moving to the next segment")

    async def _answer(self, writer: LedgerWriter, text: str) -> None:
        await self._rate_limiter.acquire(1)
        await self._rolls.answer(writer.metadata.ledger_id, text)

    async def _divide(
        self, writers: list[LedgerWriter]
    ) -> tuple[list[LedgerWriter], list[LedgerWriter]]:
        """Return the writers that can move to another ensemble, and those that cannot."""
        leaving: list[LedgerWriter] = []
        staying: list[LedgerWriter] = []
        known: dict[tuple[object, ...], bool] = {}
        async for some in slices(writers, _SLICE_COUNT):
            for writer in some:
                quorum, allowed = writer.view.quorum, writer.metadata.allowed_regions()
                rule = writer.metadata.spread_rule()
                demand = quorum, allowed, tuple(rule.items())
                if demand not in known:
                    known[demand] = await self._client.can_create(quorum, allowed, rule)
                (leaving if known[demand] else staying).append(writer)
        return leaving, staying

    async def _roll_all(self, leaving: list[LedgerWriter]) -> None:
        for writer in leaving:
            await self._rate_limiter.acquire(1)
            _LOG.info("ledger drain requested", ledger=writer.metadata.ledger_id)
            writer.request_drain()
            self._asked[writer.metadata.ledger_id] = None
            self.rolled_count += 1


def _must_roll(writer: LedgerWriter, states: PlacementStates) -> bool:
    return any(
        states.of(replica.bookie, replica.region)
        in (PlacementState.DRAINED, PlacementState.OFFLINE)
        for replica in writer.replicas
    )
