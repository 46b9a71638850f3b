"""Ledgers in the metadata store: new ledger ids, and compare-and-set of ledger metadata.

Every change names the version that it replaces (rules LED-3, LED-4, bug B4). Unknown outcomes are
resolved here: a change is either carried out or refused, and IndeterminateError is raised only if
the store cannot be read (see ``idempotent_writes``).
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..protocol.bookie_id import Region
from ..protocol.errors import (
    IndeterminateError,
    LimitExceededError,
    MetadataError,
    NamespaceMovingError,
    NodeExistsError,
    NoNodeError,
    NoSuchLedgerError,
)
from ..protocol.ledger_metadata import MOVING_KEY, LedgerMetadata
from ..runtime.metadata_store import MetadataReads, MetadataStore, Version, Watch, parent_of
from ..wire import ledger_metadata
from . import idempotent_writes
from .cluster_layout import LONG_WIDTHS, ROOT, SHORT_LEDGER_IDS_END, SHORT_WIDTHS, Paths
from .holds.garbage_hold import read_hold
from .ledger_ids import GLOBAL_STORE, id_range_of, store_number_of
from .ledger_places import LedgerPlace, read_place
from .regional_store_records import read_regional_stores, read_store_number

_ID_NAME = "ID-"
_HIGH_NAME = "HOB-"  # the high-order bits of ids beyond the short ones
_HIGH = re.compile(r"HOB-([0-9]{10})")


def high_bits_of(number: int) -> range:
    """Return the upper 32 bits of the long ids that the store with this number issues."""
    ids = id_range_of(number)
    return range(max(1, ids.start >> 32), ids.stop >> 32)


def high_name(high: int) -> str:
    """Return the name of the node whose sequential children number the ids with these bits."""
    return f"{_HIGH_NAME}{high:010d}"


class LedgerNumber(NamedTuple):
    """A ledger id that is issued only once, and the node that reserves it.

    Creating the ledger replaces the node. A process that dies before that leaves the empty node
    behind, which is harmless.
    """

    ledger_id: int
    path: str


class LedgerStore:
    """The ledgers of one metadata store, which issues ids of its own range (rule LED-27).

    ``reads`` serves reads with ``stale_ok`` and the watches; without it the store does.
    """

    __slots__ = ("_number", "_paths", "_reads", "_store")

    def __init__(
        self,
        store: MetadataStore,
        root: str = ROOT,
        *,
        number: int | None = GLOBAL_STORE,
        reads: MetadataReads | None = None,
    ) -> None:
        """``number`` is that of the store (see ``ledger_ids``). None: the store's record has it; it
        is read before the first id is issued.
        """
        self._store = store
        self._reads = reads or store
        self._paths = Paths(root)
        self._number = number

    @property
    def number(self) -> int:
        """The number of the store, which must be known or must have issued an id."""
        assert self._number is not None, "the record of the store was not read"
        return self._number

    # --- numbers --------------------------------------------------------------------------------

    async def new_number(self) -> LedgerNumber:
        """Reserve a ledger id. Safe to repeat: an error costs at most an unused id.

        As in BookKeeper it is the number of a sequential node. The node is persistent, because only
        its number matters, so no session is needed. Raises MetadataUnavailableError,
        IndeterminateError, LimitExceededError, WrongClusterError (a regional store that has not
        joined completely).
        """
        if self._number is None:
            self._number = await read_store_number(self._store, self._paths.root)
        if self.number == GLOBAL_STORE:
            number, path = await self._new_node(self._paths.ids)
            if 0 <= number < SHORT_LEDGER_IDS_END:
                return LedgerNumber(number, path)
            await _try_delete(self._store, path)
        return await self._new_long_number()

    async def next_id(self) -> int:
        """Return an id above all issued before, without reserving it. Raises as ``new_number``."""
        number = await self.new_number()
        await self.release(number)
        return number.ledger_id

    async def release(self, number: LedgerNumber) -> None:
        """Delete the node that reserves an id for which no ledger will be created.

        Never raises: a node that stays is harmless.
        """
        await _try_delete(self._store, number.path)

    async def _new_long_number(self) -> LedgerNumber:
        try:
            names = await self._store.children(self._paths.long_ids)
        except NoNodeError:
            names = []
        own = high_bits_of(self.number)
        found = [int(match[1]) for name in names if (match := _HIGH.fullmatch(name))]
        first = max((high for high in found if high in own), default=own.start)
        for high in range(first, min(first + idempotent_writes.ATTEMPTS, own.stop)):
            number, path = await self._new_node(f"{self._paths.long_ids}/{high_name(high)}")
            if 0 <= number < SHORT_LEDGER_IDS_END:
                ledger_id = high << 32 | number
                assert store_number_of(ledger_id) == self.number, "an id of another store"
                return LedgerNumber(ledger_id, path)
            await _try_delete(self._store, path)
        raise LimitExceededError(f"{self._store.uri} has no ledger ids left")

    async def _new_node(self, parent: str) -> tuple[int, str]:
        """Create the next sequential node. ZooKeeper's numbers become negative above 2^31 - 1."""
        unknown_outcome: IndeterminateError | None = None
        for _ in range(idempotent_writes.ATTEMPTS):
            try:
                path, _ = await self._store.create(f"{parent}/{_ID_NAME}", sequential=True)
            except IndeterminateError as error:
                unknown_outcome = error
                continue
            return int(path.rpartition("/")[2].removeprefix(_ID_NAME)), path
        raise unknown_outcome or AssertionError("no attempt was made")

    async def regional_numbers(self) -> dict[int, Region]:
        """Return the numbers that this store, the global one, has issued to regional stores.

        A number is never issued again. Raises MetadataUnavailableError, CorruptionError.
        """
        issued = await read_regional_stores(self._store, self._paths.root)
        return {record.number: region for region, record in issued.items()}

    # --- metadata -------------------------------------------------------------------------------

    async def create(self, metadata: LedgerMetadata, number: LedgerNumber) -> Version:
        """Write the metadata of a new ledger, replacing the node that reserves its id.

        The creation token must be set and unique: it resolves a lost reply. A request that arrives
        late, even after the ledger was deleted, creates nothing.

        Raises NodeExistsError if the id is taken, or if another process has already changed the
        ledger that this call created (e.g. recovered it): in both cases use another id. Raises
        IndeterminateError if the ledger may have been created.
        """
        assert metadata.creation_token > 0, "without a token a lost reply cannot be resolved"
        assert metadata.ledger_id == number.ledger_id
        is_own = store_number_of(metadata.ledger_id) == self.number
        assert is_own or self.number == GLOBAL_STORE, "an id of another store"
        path = self._paths.ledger(metadata.ledger_id)
        data = ledger_metadata.encode(metadata)
        try:
            return await idempotent_writes.exchange(self._store, number.path, path, data)
        except NoNodeError as error:
            raise NodeExistsError(
                f"the id of ledger {metadata.ledger_id} is no longer reserved"
            ) from error

    async def read(
        self, ledger_id: int, *, stale_ok: bool = False
    ) -> tuple[LedgerMetadata, Version]:
        """Return the metadata and its version; with ``stale_ok`` both may be old.

        Raises NoSuchLedgerError, CorruptionError, MetadataUnavailableError.
        """
        path = self._paths.ledger(ledger_id)
        try:
            reads = self._reads if stale_ok else self._store
            value = await reads.get(path, stale_ok=stale_ok)
        except NoNodeError as error:
            raise NoSuchLedgerError(f"ledger {ledger_id} does not exist") from error
        return ledger_metadata.decode(ledger_id, value.data), value.version

    async def write(self, metadata: LedgerMetadata, expect: Version) -> Version:
        """Replace the metadata if it still has version ``expect``; return the new version.

        Raises BadVersionError, NoSuchLedgerError, NamespaceMovingError (rule LED-28), and
        IndeterminateError only if the store cannot be read to find out whether the write happened.
        """
        if MOVING_KEY in metadata.custom:
            raise NamespaceMovingError(
                f"the metadata of ledger {metadata.ledger_id} is being moved to another store"
            )
        path = self._paths.ledger(metadata.ledger_id)
        try:
            return await idempotent_writes.put(
                self._store, path, ledger_metadata.encode(metadata), expect
            )
        except NoNodeError as error:
            raise NoSuchLedgerError(f"ledger {metadata.ledger_id} does not exist") from error

    async def delete(self, ledger_id: int, expect: Version | None = None) -> None:
        """Delete the metadata, and its parent nodes that have no other children.

        Raises NoSuchLedgerError, BadVersionError, IndeterminateError.
        """
        path = self._paths.ledger(ledger_id)
        try:
            await idempotent_writes.delete(self._store, path, expect)
        except NoNodeError as error:
            raise NoSuchLedgerError(f"ledger {ledger_id} does not exist") from error
        while (path := parent_of(path)) != self._paths.root:
            if not await _try_delete(self._store, path):
                return

    async def place(self, ledger_id: int) -> LedgerPlace | None:
        """Return where a moved ledger is, as far as this store knows; None without a record.

        Raises MetadataUnavailableError, CorruptionError.
        """
        return await read_place(self._store, self._paths, ledger_id)

    async def is_garbage_held(self) -> bool:
        """True if the store may lack ledgers that bookies hold (rule BAK-9).

        Raises MetadataUnavailableError, CorruptionError.
        """
        return await read_hold(self._store, self._paths.root) is not None

    def watch(self, ledger_id: int, callback: Callable[[], None]) -> Watch:
        """Call ``callback`` after the ledger's metadata changed: a hint to read it again."""
        return self._reads.watch(self._paths.ledger(ledger_id), callback)

    # --- listing --------------------------------------------------------------------------------

    async def ids(self, after: int | None = None, limit: int = 1000) -> list[int]:
        """Return a page of at most ``limit`` ids of existing ledgers above ``after``, ascending.

        It may or may not contain ledgers that are created or deleted during the call. Raises
        MetadataUnavailableError.
        """
        assert limit > 0
        found: list[int] = []
        floor = -1 if after is None else after
        for widths in (SHORT_WIDTHS, LONG_WIDTHS):  # every short id is below every long one
            if floor < SHORT_LEDGER_IDS_END or widths is LONG_WIDTHS:
                await self._collect(self._paths.root, "", widths, floor, limit, found)
        return found

    async def _collect(
        self,
        path: str,
        digits: str,
        widths: Sequence[int],
        floor: int,
        limit: int,
        found: list[int],
    ) -> None:
        """Append the ids below ``path``, which all begin with ``digits``, to ``found``."""
        width, deeper = widths[0], widths[1:]
        name = re.compile(rf"{'' if deeper else 'L'}([0-9]{{{width}}})")
        try:
            children = await self._store.children(path)
        except NoNodeError:
            return  # its last ledger was deleted concurrently
        for match in filter(None, map(name.fullmatch, children)):
            if len(found) >= limit:
                return
            more = digits + match[1]
            largest = int(more + "9" * sum(deeper))
            if largest > floor and deeper:
                await self._collect(f"{path}/{match[0]}", more, deeper, floor, limit, found)
            elif largest > floor:
                found.append(largest)


async def _try_delete(store: MetadataStore, path: str) -> bool:
    """Delete a node; return False if it still has children or the outcome is unknown."""
    try:
        await store.delete(path)
    except MetadataError:
        return False
    return True
