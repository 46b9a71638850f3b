"""Returns surplus copies: ledgers whose metadata no longer names this bookie (rule BKE-31).

Repair and rebalancing move copies to other bookies, and leave the old ones behind. A bookie that
was away while its ledgers were repaired has them all. They are deleted, once nothing can still rely
on them:

1. The ledger is closed, so no recovery needs it, and for ``surplus_ms`` no fragment has named this
   bookie.
2. From now on this bookie neither lists the ledger nor accepts a copy of it.
3. A compare-and-set on the metadata that was read counts the return in it. It fails if the bookie
   was named meanwhile. A repair that relied on what this bookie listed or stored before finds the
   count changed, and begins again (rule RPR-17, bug B30).
4. The ledger is deleted here like any other, with a tombstone, which a later repair may lift.
"""

import asyncio
from bisect import bisect_right
from dataclasses import dataclass
from itertools import chain, islice

from ...metadata.ledger_store import LedgerStore
from ...metadata.ledger_stores import LedgerStores
from ...protocol.bookie_id import BookieId
from ...protocol.errors import (
    BadVersionError,
    IndeterminateError,
    NamespaceMovingError,
    NoSuchLedgerError,
    RhumblineError,
)
from ...protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...runtime.event_log import EventLog
from ...runtime.metadata_store import Version
from ...runtime.primitives.slices import slices
from ..config import BookieConfig
from ..server.entry_service import EntryService

_LOG = EventLog(__name__)


@dataclass(slots=True)
class SurplusCounts:
    """Counters for metrics."""

    returned: int = 0
    """Ledgers whose copies were deleted since the start."""
    waiting: int = 0
    """Ledgers that the last cycles found to be surplus, and that are still kept."""


class SurplusCopies:
    """Examines some of the bookie's ledgers in each cycle, and returns those that are surplus."""

    def __init__(
        self, service: EntryService, stores: LedgerStores, bookie: BookieId, config: BookieConfig
    ) -> None:
        self.counts = SurplusCounts()
        self._service = service
        self._stores = stores
        self._bookie = bookie
        self._config = config
        self._next = -1
        self._since: dict[int, float] = {}
        """Ledger -> loop time at which it was first found to be surplus."""

    async def step(self, *, is_unlimited: bool) -> None:
        """Runs one cycle; ``is_unlimited`` lifts the limit of ledgers, while space is short.

        Raises MetadataUnavailableError and other errors of the store; ledgers whose metadata is
        damaged are kept.
        """
        known = sorted(self._service.ledgers)
        at = bisect_right(known, self._next)
        limit = len(known) if is_unlimited else self._config.surplus_checks_max
        for ledger_id in islice(chain(known[at:], known[:at]), limit):
            self._next = ledger_id
            await self._examine(ledger_id)
        async for ids in slices(list(self._since)):
            for ledger_id in ids:
                if ledger_id not in self._service.ledgers:
                    self._since.pop(ledger_id, None)
        self.counts.waiting = len(self._since)

    async def _examine(self, ledger_id: int) -> None:
        store = self._stores.owner_of(ledger_id)
        try:
            metadata, version = await store.read(ledger_id)
        except RhumblineError as error:
            if error.retryable:
                raise
            return  # deleted, which garbage collection finds; moved to another store; or damaged
        if not self._is_surplus(metadata):
            self._since.pop(ledger_id, None)
            return
        now = asyncio.get_running_loop().time()
        since = self._since.setdefault(ledger_id, now)
        if now - since >= self._config.surplus_ms / 1000:
            await self._return(store, metadata, version)

    def _is_surplus(self, metadata: LedgerMetadata) -> bool:
        return (
            metadata.state is LedgerState.CLOSED
            and self._bookie not in metadata.bookies()
            and not self._service.storage.states.limbo.covers(metadata.ledger_id)
        )

    async def _return(self, store: LedgerStore, metadata: LedgerMetadata, version: Version) -> None:
        if await store.is_garbage_held():
            return
        ledger_id, service = metadata.ledger_id, self._service
        service.returning[ledger_id] = None
        try:
            try:
                await store.write(metadata.with_return(), version)
            except (
                BadVersionError,
                NoSuchLedgerError,
                NamespaceMovingError,
                IndeterminateError,
            ):
                return  # named again, deleted, moving, or not known: it is examined again
            ledger = service.ledgers.get(ledger_id)
            if ledger is None:
                return  # deleted meanwhile
            ledger.accepts_adds = False
            await service.storage.delete_durably(ledger_id)
            service.polls.wake_all(ledger)
            self._since.pop(ledger_id, None)
            self.counts.returned += 1
            _LOG.info("surplus copies returned", bookie=self._bookie, ledger=ledger_id)
        finally:
            del service.returning[ledger_id]
