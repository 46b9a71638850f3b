"""Garbage collection: forgetting ledgers that are gone from the metadata (bugs B27, B29).

A listing of ledger ids is only a hint of whom to ask about. A ledger is deleted after a point read
said that it is gone, in a store that proved to be this cluster's, and never more than a tenth of
all (at least one) in one cycle without an operator's word. A tombstone stays, so that a late write
does not bring the ledger back.
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from ...protocol.errors import WrongClusterError
from ..config import BookieConfig
from ..ledger_membership import MembershipCheck
from ..server.entry_service import EntryService

_PAGE = 1_000
_SHARE = 10


class LedgerListing(Protocol):
    """Pages of the ids of all ledgers of the cluster, rising."""

    async def ids(self, after: int | None = None, limit: int = 1000) -> list[int]:
        """Ids above ``after``. Raises MetadataError."""
        ...


@dataclass(slots=True)
class Collection:
    """What one cycle found and did."""

    gone: int = 0
    deleted: int = 0
    held_back: int = 0


class GarbageCollector:
    """Compares what is here with the metadata, now and then."""

    def __init__(self, service: EntryService, ledgers: LedgerListing, config: BookieConfig) -> None:
        self._service = service
        self._ledgers = ledgers
        self._config = config
        self.deleted_count = 0
        self.held_back_count = 0
        """Gone ledgers that the last cycle left because there were too many."""

    async def collect(self, instance_id: str, expected: str, *, is_unlimited: bool) -> Collection:
        """One cycle. ``is_unlimited``: an operator said that many may go.

        ``instance_id`` is what the metadata store says that it is, ``expected`` what this storage
        belongs to. Raises WrongClusterError when they differ, MetadataError.
        """
        if instance_id != expected:
            raise WrongClusterError(
                f"nothing is deleted: the metadata store is that of {instance_id}, not {expected}"
            )
        result = Collection()
        known = sorted(self._service.ledgers)
        limit = len(known) if is_unlimited else max(1, len(known) // _SHARE)
        for ledger_id in await self._not_listed(known):
            if await self._service.proofs.look(ledger_id) is not MembershipCheck.GONE:
                continue
            result.gone += 1
            if result.deleted >= limit:
                result.held_back += 1
                continue
            self._delete(ledger_id)
            result.deleted += 1
        self._forget_tombstones()
        await self._drop_orphans()
        self.deleted_count += result.deleted
        self.held_back_count = result.held_back
        return result

    async def _not_listed(self, known: list[int]) -> list[int]:
        """Ledgers that are here and in no page of the listing."""
        missing = dict.fromkeys(known)
        after: int | None = None
        while page := await self._ledgers.ids(after, _PAGE):
            for ledger_id in page:
                missing.pop(ledger_id, None)
            after = page[-1]
        return list(missing)

    def _delete(self, ledger_id: int) -> None:
        ledger = self._service.ledgers.get(ledger_id)
        if ledger is None:
            return
        ledger.takes_adds = False
        self._service.storage.delete_ledger(ledger_id)
        self._service.polls.wake_all(ledger)

    def _forget_tombstones(self) -> None:
        """Old ones go: by then no client holds a handle of that ledger any more."""
        tombstones = self._service.storage.states.tombstones
        before = self._service.storage.wall_ms() - self._config.tombstone_ms
        for ledger_id in [one for one, wall_ms in tombstones.items() if wall_ms < before]:
            del tombstones[ledger_id]

    async def _drop_orphans(self) -> None:
        """Index rows of ledgers that are not held: left over from a rebuild over old files."""
        storage = self._service.storage
        for count, ledger_id in enumerate(list(storage.index.ledgers())):
            if not storage.is_held(ledger_id):
                storage.index.drop(ledger_id)
            if count % _PAGE == 0:
                await asyncio.sleep(0)
