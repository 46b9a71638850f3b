"""The durable index: an LMDB environment, which no other module uses.

Rows are stored in blocks (index_blocks.py). Sync is on. A checkpoint is one write transaction that
also stores the number of the log up to which the index is complete, so that number is never wrong
(rule BKE-19). Reads use their own snapshot and do not block. Writes block, so they run through
``run``, which the host provides (a thread). An environment that cannot be opened is deleted and
rebuilt, since the index is a cache.
"""

import asyncio
import struct
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import lmdb

from ...protocol.bookie_id import BookieId
from ...protocol.errors import DiskFailedError, DiskFullError
from ...runtime.tasks import wait_until_done
from .entry_index import IndexedEntry, LedgerEntries, Location
from .index_blocks import (
    ENTRY_MAX,
    KEY,
    ROWS_MAX,
    blocks_of,
    decode_block,
    find_in_block,
    first_id,
    row_count,
)

RunBlocking = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Function that runs a blocking function in another thread and returns its result."""

_Opened = tuple[lmdb.Environment, lmdb._Database, lmdb._Database]

_COVERED_FIELDS = struct.Struct(">QQ")
_META = b"meta"
_ROWS = b"rows"
_COVERED = b"covered"
_OWNER = b"bookie"
_MAP_BYTES = 1 << 38
"""Size of the address space, not of memory or disk; too large to be ever exceeded."""

_FORMAT = f"2 {sys.byteorder} ".encode()


class LmdbIndex:
    """An IndexStore in an LMDB environment, created by ``open_lmdb_index``."""

    is_durable = True

    def __init__(
        self,
        environment: lmdb.Environment,
        rows: lmdb._Database,
        meta: lmdb._Database,
        run: RunBlocking,
    ) -> None:
        self._writing: asyncio.Future[Any] | None = None
        self._environment = environment
        self._rows = rows
        self._meta = meta
        self._run = run
        self._covered_log = self._sequence = 0
        with environment.begin() as transaction:
            value = transaction.get(_COVERED, db=meta)
            if value is not None:
                self._covered_log, self._sequence = _COVERED_FIELDS.unpack(value)

    @property
    def covered_log(self) -> int:
        """See IndexStore."""
        return self._covered_log

    @property
    def sequence(self) -> int:
        """See IndexStore."""
        return self._sequence

    def find(self, ledger_id: int, entry_id: int) -> Location | None:
        """See EntryIndex."""
        with self._environment.begin(db=self._rows) as transaction:
            cursor = transaction.cursor()
            if not cursor.set_range(KEY.pack(ledger_id, entry_id)):
                return None
            key, value = _item(cursor)
        return find_in_block(value, entry_id) if KEY.unpack(key)[0] == ledger_id else None

    def last(self, ledger_id: int) -> int | None:
        """See EntryIndex."""
        with self._environment.begin(db=self._rows) as transaction:
            cursor = transaction.cursor()
            if not self._seek_before(cursor, ledger_id, ENTRY_MAX):
                return None
            return int(KEY.unpack(cursor.key())[1])

    def page(self, ledger_id: int, first: int, limit: int) -> list[IndexedEntry]:
        """See EntryIndex."""
        rows: list[IndexedEntry] = []
        with self._environment.begin(db=self._rows) as transaction:
            for _, value in self._blocks(transaction.cursor(), ledger_id, first):
                found = decode_block(value).page(first, limit - len(rows))
                rows.extend(IndexedEntry(ledger_id, *row) for row in found)
                if len(rows) == limit:
                    break
        return rows

    def span(self, ledger_id: int, first: int, last: int) -> LedgerEntries:
        """See EntryIndex."""
        rows = LedgerEntries()
        with self._environment.begin(db=self._rows) as transaction:
            for _, value in self._blocks(transaction.cursor(), ledger_id, first):
                if first_id(value) > last:
                    break
                rows.update(decode_block(value))
        return rows.span(first, last)

    def _blocks(
        self, cursor: lmdb.Cursor, ledger_id: int, first: int
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the blocks of a ledger whose last entry id is ``first`` or higher."""
        is_found = cursor.set_range(KEY.pack(ledger_id, first))
        while is_found:
            key, value = _item(cursor)
            if KEY.unpack(key)[0] != ledger_id:
                return
            yield key, value
            is_found = cursor.next()

    def ledgers(self) -> Iterator[int]:
        """See EntryIndex. Each step has a new transaction, so the index may change meanwhile."""
        at = 0
        while True:
            with self._environment.begin(db=self._rows) as transaction:
                cursor = transaction.cursor()
                if not cursor.set_range(KEY.pack(at, 0)):
                    return
                ledger_id = KEY.unpack(cursor.key())[0]
            yield ledger_id
            at = ledger_id + 1

    def put(self, rows: Sequence[IndexedEntry]) -> None:
        """Not supported: the store is changed by ``apply`` only."""
        raise NotImplementedError("the durable index is changed by checkpoints only")

    def drop(self, ledger_id: int) -> None:
        """Not supported: the store is changed by ``apply`` only."""
        raise NotImplementedError("the durable index is changed by checkpoints only")

    async def apply(
        self,
        columns: Iterable[tuple[int, LedgerEntries]],
        drops: Sequence[int],
        covered_log: int,
        sequence: int,
    ) -> None:
        """See IndexStore. Raises DiskFullError, DiskFailedError."""
        await self._write_in_thread(lambda: self._apply(columns, drops, covered_log, sequence))
        self._covered_log, self._sequence = covered_log, sequence

    async def _write_in_thread(self, work: Callable[[], None]) -> None:
        """Runs one write at a time. Cancelling a call does not stop its write."""
        if self._writing is not None and not self._writing.done():
            await wait_until_done(self._writing)
        self._writing = asyncio.ensure_future(self._run(work))
        await asyncio.shield(self._writing)

    def _apply(
        self,
        columns: Iterable[tuple[int, LedgerEntries]],
        drops: Sequence[int],
        covered_log: int,
        sequence: int,
    ) -> None:
        try:
            with self._environment.begin(write=True) as transaction:
                for ledger_id in drops:
                    self._delete_ledger(transaction, ledger_id)
                cursor = transaction.cursor(db=self._rows)
                for ledger_id, entries in columns:
                    self._merge(cursor, ledger_id, entries)
                covered = _COVERED_FIELDS.pack(covered_log, sequence)
                transaction.put(_COVERED, covered, db=self._meta)
        except (lmdb.DiskError, lmdb.MapFullError) as error:
            raise DiskFullError(f"the index: {error}") from error
        except lmdb.Error as error:
            raise DiskFailedError(f"the index: {error}") from error

    def _merge(self, cursor: lmdb.Cursor, ledger_id: int, entries: LedgerEntries) -> None:
        """Merges rows into the blocks that they overlap, or into a block before that has room."""
        if not entries:
            return
        first = entries.ids[0]
        old = LedgerEntries()
        keys: list[bytes] = []
        for key, value in self._blocks(cursor, ledger_id, first):
            if first_id(value) > entries.last:
                break
            keys.append(key)
            old.update(decode_block(value))
        if not keys and self._seek_before(cursor, ledger_id, first):
            key, value = _item(cursor)
            if row_count(value) < ROWS_MAX:
                keys.append(key)
                old = decode_block(value)
        if keys:
            old.update(entries)
            entries = old
        for key in keys:
            if cursor.set_key(key):
                cursor.delete()
        cursor.putmulti(blocks_of(ledger_id, entries), overwrite=True)

    def _seek_before(self, cursor: lmdb.Cursor, ledger_id: int, first: int) -> bool:
        """Moves to the ledger's last block that ends before ``first``, if there is one."""
        found = cursor.prev() if cursor.set_range(KEY.pack(ledger_id, first)) else cursor.last()
        return found and KEY.unpack(cursor.key())[0] == ledger_id

    def _delete_ledger(self, transaction: lmdb.Transaction, ledger_id: int) -> None:
        cursor = transaction.cursor(db=self._rows)
        is_found = cursor.set_range(KEY.pack(ledger_id, 0))
        while is_found and KEY.unpack(cursor.key())[0] == ledger_id:
            is_found = cursor.delete() and bool(cursor.key())

    async def clear(self) -> None:
        """See IndexStore."""

        def work() -> None:
            with self._environment.begin(write=True) as transaction:
                transaction.drop(self._rows, delete=False)
                transaction.put(_COVERED, _COVERED_FIELDS.pack(0, 0), db=self._meta)

        await self._write_in_thread(work)
        self._covered_log = self._sequence = 0

    async def close(self) -> None:
        """See IndexStore."""
        if self._writing is not None and not self._writing.done():
            await wait_until_done(self._writing)
        self._environment.close()


def _item(cursor: lmdb.Cursor) -> tuple[bytes, bytes]:
    """Return copies of the cursor's key and value (transactions without ``buffers``)."""
    return cast("tuple[bytes, bytes]", cursor.item())


async def open_lmdb_index(directory: Path, bookie: BookieId, run: RunBlocking) -> LmdbIndex:
    """Opens the index in ``directory``; empties it if it is damaged or another bookie's.

    Raises DiskFailedError if the directory cannot be used.
    """

    def work() -> _Opened:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            return _open(directory, bookie)
        except lmdb.Error:
            for path in sorted(directory.iterdir()):
                path.unlink()
            return _open(directory, bookie)

    try:
        environment, rows, meta = await run(work)
    except (OSError, lmdb.Error) as error:
        raise DiskFailedError(f"the index in {directory}: {error}") from error
    return LmdbIndex(environment, rows, meta, run)


def _open(directory: Path, bookie: BookieId) -> _Opened:
    environment = lmdb.open(str(directory), map_size=_MAP_BYTES, max_dbs=2, max_readers=8)
    rows, meta = environment.open_db(_ROWS), environment.open_db(_META)
    owner = _FORMAT + bookie.encode("ascii")
    with environment.begin(write=True) as transaction:
        if transaction.get(_OWNER, db=meta) != owner:
            transaction.drop(rows, delete=False)
            transaction.drop(meta, delete=False)
            transaction.put(_OWNER, owner, db=meta)
    return environment, rows, meta
