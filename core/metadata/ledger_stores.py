"""The ledgers of several metadata stores, each asked only about its own ids (rule BKE-26).

A bookie holds ledgers of the global store and of the store of its region. A store that does not
know a ledger says something about it only if the ledger's id is in its range. An id in the range of
a number that no regional store was ever given belongs to the global store: clients of BookKeeper
may choose such ids.
"""

from collections.abc import Collection, Sequence

from ..protocol.errors import MetadataUnavailableError, NoSuchLedgerError
from ..protocol.ledger_metadata import LedgerMetadata
from ..runtime.metadata_store import Version
from .ledger_ids import GLOBAL_STORE, id_range_of, store_number_of
from .ledger_store import LedgerStore

_END = 2**63


class LedgerStores:
    """Read access to ledger metadata by ledger id, in the store that owns the id."""

    __slots__ = ("_by_number", "_global")

    def __init__(self, ledgers: LedgerStore, regional: LedgerStore | None = None) -> None:
        """``ledgers`` are those of the global store, ``regional`` those of the region's store."""
        assert ledgers.number == GLOBAL_STORE, "the first store is the global one"
        assert regional is None or regional.number != GLOBAL_STORE
        self._global = ledgers
        self._by_number = {ledgers.number: ledgers}
        if regional is not None:
            self._by_number[regional.number] = regional

    @property
    def all(self) -> Sequence[LedgerStore]:
        """The stores, the global one first."""
        return tuple(self._by_number.values())

    def owner_of(self, ledger_id: int) -> LedgerStore:
        """Return the store that is asked about the ledger."""
        return self._by_number.get(store_number_of(ledger_id), self._global)

    async def read(self, ledger_id: int) -> tuple[LedgerMetadata, Version]:
        """Return the metadata and its version. Raises CorruptionError, MetadataError.

        NoSuchLedgerError is final: the store that owns the id has no such ledger. If the owner is a
        regional store that is not known here, MetadataUnavailableError is raised.
        """
        store, number = self.owner_of(ledger_id), store_number_of(ledger_id)
        try:
            return await store.read(ledger_id)
        except NoSuchLedgerError:
            if store.number != number and number in await self._global.regional_numbers():
                raise MetadataUnavailableError(
                    f"ledger {ledger_id} belongs to regional metadata store {number}, which is not "
                    "in the settings of this process"
                ) from None
            raise

    async def next_ids(self, known: Collection[int]) -> list[int]:
        """Return a new id of each store whose number is not in ``known``.

        It is above all that the store has issued. Raises MetadataError.
        """
        return [await store.next_id() for store in self.all if store.number not in known]

    async def ids(self, after: int | None = None, limit: int = 1000) -> list[int]:
        """Return a page of ids of all stores, ascending; see ``LedgerStore.ids``."""
        found: list[int] = []
        floor = -1 if after is None else after
        for store, first, end in self._parts():
            while len(found) < limit and floor < end - 1:
                wanted = limit - len(found)
                page = await store.ids(max(floor, first - 1), wanted)
                own = [ledger_id for ledger_id in page if ledger_id < end]
                found += own
                floor = own[-1] if len(own) == wanted else end - 1
        return found

    def _parts(self) -> list[tuple[LedgerStore, int, int]]:
        """Return the stores by the ranges of ids for which they are asked, ascending."""
        parts, start = [], 0
        for number, store in sorted(self._by_number.items()):
            if number != GLOBAL_STORE:
                ids = id_range_of(number)
                parts += [(self._global, start, ids.start), (store, ids.start, ids.stop)]
                start = ids.stop
        return [*parts, (self._global, start, _END)]
