"""Garbage collection: deletes ledgers whose metadata does not exist (rules BKE-21, BKE-22).

Each metadata store has a collector of its own, for the ledgers whose ids it owns (rule BKE-26).
Listings of ledger ids only show which ledgers to check (bug B29). A ledger is deleted after a
point read found no metadata, in a metadata store that has the bookie's instance id. One cycle
deletes at most ``collect_percent_max`` percent of the bookie's ledgers, and at least one.
A tombstone remains, so that a late write does not bring the ledger back (bug B27).
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from ...protocol.errors import WrongClusterError
from ...runtime.primitives.slices import slices
from ..config import BookieConfig
from ..ledger_membership import MembershipCheck
from ..server.entry_service import EntryService

_PAGE = 1_000


ListElsewhere = Callable[[], Awaitable[Collection[int]]]
"""Function that lists ledgers in other metadata stores."""


class LedgerListing(Protocol):
    """A listing of the ids of all ledgers in the cluster, in rising pages."""

    async def ids(self, after: int | None = None, limit: int = 1000) -> list[int]:
        """Return up to ``limit`` ids above ``after``. Raises MetadataError."""
        ...


@dataclass(slots=True)
class CollectionReport:
    """Counts of one cycle: ledgers without metadata, deleted ledgers, postponed deletions."""

    missing: int = 0
    deleted: int = 0
    held_back: int = 0


class GarbageCollector:
    """Compares the bookie's ledgers with the metadata and deletes garbage, on each ``collect``."""

    def __init__(
        self,
        service: EntryService,
        ledgers: LedgerListing,
        config: BookieConfig,
        owns: Callable[[int], bool] = lambda _: True,
        list_elsewhere: ListElsewhere | None = None,
        is_held: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """``owns`` tells the ids about which the store of ``ledgers`` is asked.

        ``is_held`` returns whether that store may lack ledgers (rule BAK-9).

        ``list_elsewhere`` returns those of them that another store lists.
        """
        self._service = service
        self._owns = owns
        self._list_elsewhere = list_elsewhere
        self._is_held = is_held
        self._ledgers = ledgers
        self._config = config
        self.deleted_count = 0
        self.held_back_count = 0
        """Ledgers without metadata that the last cycle kept because of its limit."""

    async def collect(self, instance_id: str, expected: str) -> CollectionReport:
        """Runs one cycle.

        ``instance_id`` is that of the metadata store, ``expected`` that of this storage. Raises
        WrongClusterError if they differ, MetadataError.
        """
        if instance_id != expected:
            raise WrongClusterError(
                f"nothing is deleted: the metadata store belongs to cluster {instance_id}, "
                f"not to {expected}"
            )
        result = CollectionReport()
        known = await self._owned()
        limit = max(1, len(known) * self._config.collect_percent_max // 100)
        await self._remove_listed(known)
        for ledger_id in known:
            if await self._service.membership.read(ledger_id) is not MembershipCheck.DELETED:
                continue
            result.missing += 1
            # Read after the ledger, and so from a store that is at least as new.
            if self._is_held is not None and await self._is_held():
                result.held_back += 1
                continue
            if result.deleted >= limit:
                result.held_back += 1
                continue
            self._delete(ledger_id)
            result.deleted += 1
        await self._drop_old_tombstones()
        await self._drop_orphans()
        self.deleted_count += result.deleted
        self.held_back_count = result.held_back
        return result

    async def _owned(self) -> dict[int, None]:
        """Return the ledgers on this bookie that the store owns."""
        owned: dict[int, None] = {}
        async for ids in slices(list(self._service.ledgers)):
            owned.update(dict.fromkeys(filter(self._owns, ids)))
        return owned

    async def _remove_listed(self, ledgers: dict[int, None]) -> None:
        """Remove the ledgers that some listing contains."""
        after: int | None = None
        while page := await self._ledgers.ids(after, _PAGE):
            for ledger_id in page:
                ledgers.pop(ledger_id, None)
            after = page[-1]
        if ledgers and self._list_elsewhere is not None:
            for ledger_id in await self._list_elsewhere():
                ledgers.pop(ledger_id, None)

    def _delete(self, ledger_id: int) -> None:
        ledger = self._service.ledgers.get(ledger_id)
        if ledger is None:
            return
        ledger.accepts_adds = False
        self._service.storage.delete_ledger(ledger_id)
        self._service.polls.wake_all(ledger)

    async def _drop_old_tombstones(self) -> None:
        """Drops expired tombstones: by then no client holds a handle of the ledger any more."""
        tombstones = self._service.storage.states.tombstones
        before = self._service.storage.wall_ms() - self._config.tombstone_ms
        async for ids in slices(list(tombstones)):
            for ledger_id in ids:
                if tombstones.get(ledger_id, before) < before:
                    del tombstones[ledger_id]

    async def _drop_orphans(self) -> None:
        """Drops index rows of unknown ledgers, which a rebuild from old files may leave."""
        storage = self._service.storage
        async for ids in slices(storage.index.ledgers(), _PAGE):
            for ledger_id in ids:
                if not storage.is_held(ledger_id):
                    storage.index.drop(ledger_id)
