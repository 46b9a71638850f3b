"""The ledgers of several metadata stores, each asked only about its own ledgers (rule BKE-26).

A bookie holds ledgers of the global store and of the store of its region. A store that does not
know a ledger says something about it only if the ledger's id is in its range, or if a record in it
says that the ledger was moved there (rule LED-28). An id in the range of a number that no regional
store was ever given belongs to the global store: clients of BookKeeper may choose such ids.
"""

from collections.abc import Collection, Sequence

from ..protocol.errors import MetadataUnavailableError, NoSuchLedgerError
from ..protocol.ledger_metadata import MOVING_KEY, LedgerMetadata
from ..runtime.metadata_store import Version
from .ledger_ids import GLOBAL_STORE, id_range_of, store_number_of
from .ledger_store import LedgerStore

_END = 2**63
_HOPS_MAX = 4
"""Maximum number of records of a moved ledger that are followed: it may move meanwhile."""


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

        NoSuchLedgerError is final: the store that has the ledger, which is that of its id unless it
        was moved (rule LED-28), does not know it any more. MetadataUnavailableError is raised if
        that store is not known here, or while the ledger is being moved.
        """
        store = self.owner_of(ledger_id)
        try:
            found = await store.read(ledger_id)
        except NoSuchLedgerError:
            if await self._is_final(store, ledger_id):
                raise
            found = await self._read_moved(store, ledger_id)
        if MOVING_KEY in found[0].custom:
            # The other store may have it already, and repair may have changed it there.
            raise MetadataUnavailableError(f"ledger {ledger_id} is being moved to another store")
        return found

    async def _is_final(self, store: LedgerStore, ledger_id: int) -> bool:
        """Return whether ``store``, which did not find the ledger, issued its id and kept it.

        The record of a moved ledger stays at its home for ever. If there is none now, there was
        none when the ledger was not found.
        """
        is_home = store.number == await self._home_of(ledger_id)
        return is_home and await store.place(ledger_id) is None

    async def _home_of(self, ledger_id: int) -> int:
        """Return the number of the store that issued the id, or would have."""
        number = store_number_of(ledger_id)
        if number not in self._by_number and number not in await self._global.regional_numbers():
            return GLOBAL_STORE
        return number

    async def _read_moved(
        self, store: LedgerStore, ledger_id: int
    ) -> tuple[LedgerMetadata, Version]:
        """Read a ledger in the store that has it, which says so itself; begin with ``store``."""
        home = await self._home_of(ledger_id)
        for _ in range(_HOPS_MAX):
            place = await store.place(ledger_id)
            number = home if place is None else place.number
            if number != store.number:
                store = self._known(ledger_id, number)
                continue
            try:
                return await store.read(ledger_id)
            except NoSuchLedgerError:
                if await store.place(ledger_id) == place:
                    raise  # it was there all the time, and the ledger was not
        raise MetadataUnavailableError(f"ledger {ledger_id} is being moved to another store")

    def _known(self, ledger_id: int, number: int) -> LedgerStore:
        store = self._by_number.get(number)
        if store is None:
            raise MetadataUnavailableError(
                f"ledger {ledger_id} belongs to regional metadata store {number}, which is not "
                "in the settings of this process"
            )
        return store

    async def listed_elsewhere(self, owner: LedgerStore) -> set[int]:
        """Return the ids of the range of ``owner`` that the other stores list.

        Stores that are unavailable contribute nothing.
        """
        found: set[int] = set()
        for store in self.all:
            if store is not owner:
                try:
                    found |= await self._listed_by(store, owner)
                except MetadataUnavailableError:
                    continue  # each of its ledgers is looked up
        return found

    async def _listed_by(self, store: LedgerStore, owner: LedgerStore) -> set[int]:
        """Return the ids of the range of ``owner`` that ``store`` lists; skip its own range."""
        found: set[int] = set()
        is_all = owner.number == GLOBAL_STORE
        wanted = range(_END) if is_all else id_range_of(owner.number)
        skipped = range(0) if store.number == GLOBAL_STORE else id_range_of(store.number)
        after = wanted.start - 1
        while after < wanted.stop - 1 and (page := await store.ids(after)):
            found |= {ledger_id for ledger_id in page if self.owner_of(ledger_id) is owner}
            after = skipped.stop - 1 if page[-1] in skipped else page[-1]
        return found

    async def next_ids(self, known: Collection[int]) -> list[int]:
        """Return a new id of each store whose number is not in ``known``.

        It is above all that the store has issued. Raises MetadataError.
        """
        return [await store.next_id() for store in self.all if store.number not in known]

    async def ids(self, after: int | None = None, limit: int = 1000) -> list[int]:
        """Return a page of ids of all stores, ascending; see ``LedgerStore.ids``.

        A moved ledger is outside the range of its store, and while it moves two stores list it.
        """
        pages = [await store.ids(after, limit) for store in self.all]
        return sorted({ledger_id for page in pages for ledger_id in page})[:limit]
