"""The durable index: an LMDB environment, reached only from here.

Keys are ledger and entry id (8 + 8 bytes, big-endian, so that byte order is their order), values
position and length. Sync is on; one write transaction a checkpoint also holds the log number that
it covers, so the index is never ahead of the logs and never says more than it has. Reads take a
snapshot of their own and block no one; writing blocks, so it runs through ``run``, which the host
gives (a thread). What cannot be opened or read is thrown away and rebuilt: it is a cache.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lmdb

from ..protocol.bookie_id import BookieId
from ..protocol.errors import DiskFailedError, DiskFullError
from ..runtime.tasks import settled
from .index import IndexedEntry, Location

RunBlocking = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a blocking function elsewhere and returns its result."""

_Opened = tuple[lmdb.Environment, lmdb._Database, lmdb._Database]

_KEY = struct.Struct(">QQ")
_VALUE = struct.Struct(">QI")
_COVERED_FIELDS = struct.Struct(">QQ")
_ENTRY_MAX = 2**64 - 1
_META = b"meta"
_ROWS = b"rows"
_COVERED = b"covered"
_OWNER = b"bookie"
_MAP_BYTES = 1 << 38
"""Address space, not memory or disk: so large that it never has to be changed while readers run."""

_FORMAT = b"1 "


class LmdbIndex:
    """See tiered_index.IndexStore. Made by ``open_lmdb_index``."""

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
            value = transaction.get(_KEY.pack(ledger_id, entry_id))
        return None if value is None else Location(*_VALUE.unpack(value))

    def last(self, ledger_id: int) -> int | None:
        """See EntryIndex."""
        with self._environment.begin(db=self._rows) as transaction:
            cursor = transaction.cursor()
            # The last key not above the ledger's highest possible one.
            if cursor.set_range(_KEY.pack(ledger_id, _ENTRY_MAX)):
                is_found = cursor.prev()
            else:
                is_found = cursor.last()
            if not is_found:
                return None
            found, entry_id = _KEY.unpack(cursor.key())
        return entry_id if found == ledger_id else None

    def page(self, ledger_id: int, first: int, limit: int) -> list[IndexedEntry]:
        """See EntryIndex."""
        rows: list[IndexedEntry] = []
        with self._environment.begin(db=self._rows) as transaction:
            cursor = transaction.cursor()
            if not cursor.set_range(_KEY.pack(ledger_id, first)):
                return rows
            for key, value in cursor:
                found, entry_id = _KEY.unpack(key)
                if found != ledger_id or len(rows) >= limit:
                    break
                rows.append(IndexedEntry(ledger_id, entry_id, *_VALUE.unpack(value)))
        return rows

    def ledgers(self) -> Iterator[int]:
        """See EntryIndex. Each step looks anew, so changes meanwhile do not matter."""
        at = 0
        while True:
            with self._environment.begin(db=self._rows) as transaction:
                cursor = transaction.cursor()
                if not cursor.set_range(_KEY.pack(at, 0)):
                    return
                ledger_id = _KEY.unpack(cursor.key())[0]
            yield ledger_id
            at = ledger_id + 1

    def put(self, rows: Sequence[IndexedEntry]) -> None:
        """Not used: the store changes by ``apply`` only."""
        raise NotImplementedError("the store changes by checkpoints")

    def drop(self, ledger_id: int) -> None:
        """Not used: the store changes by ``apply`` only."""
        raise NotImplementedError("the store changes by checkpoints")

    async def apply(
        self, rows: Iterable[IndexedEntry], drops: Sequence[int], covered_log: int, sequence: int
    ) -> None:
        """See IndexStore. Raises DiskFullError, DiskFailedError."""
        await self._write_elsewhere(lambda: self._apply(rows, drops, covered_log, sequence))
        self._covered_log, self._sequence = covered_log, sequence

    async def _write_elsewhere(self, work: Callable[[], None]) -> None:
        """One writer at a time; a cancelled caller doesn't stop it, and ``close`` waits for it."""
        assert self._writing is None or self._writing.done(), "one checkpoint at a time"
        self._writing = asyncio.ensure_future(self._run(work))
        await asyncio.shield(self._writing)

    def _apply(
        self,
        rows: Iterable[IndexedEntry],
        drops: Sequence[int],
        covered_log: int,
        sequence: int,
    ) -> None:
        try:
            self._write(rows, drops, covered_log, sequence)
        except (lmdb.DiskError, lmdb.MapFullError) as error:
            raise DiskFullError(f"the index: {error}") from error
        except lmdb.Error as error:
            raise DiskFailedError(f"the index: {error}") from error

    def _write(
        self,
        rows: Iterable[IndexedEntry],
        drops: Sequence[int],
        covered_log: int,
        sequence: int,
    ) -> None:
        with self._environment.begin(write=True) as transaction:
            for ledger_id in drops:
                self._delete_ledger(transaction, ledger_id)
            items = (
                (_KEY.pack(ledger_id, entry_id), _VALUE.pack(position, length))
                for ledger_id, entry_id, position, length in rows
            )
            transaction.cursor(db=self._rows).putmulti(items, overwrite=True)
            transaction.put(_COVERED, _COVERED_FIELDS.pack(covered_log, sequence), db=self._meta)

    def _delete_ledger(self, transaction: lmdb.Transaction, ledger_id: int) -> None:
        cursor = transaction.cursor(db=self._rows)
        is_found = cursor.set_range(_KEY.pack(ledger_id, 0))
        while is_found and _KEY.unpack(cursor.key())[0] == ledger_id:
            is_found = cursor.delete() and bool(cursor.key())

    async def clear(self) -> None:
        """See IndexStore."""

        def work() -> None:
            with self._environment.begin(write=True) as transaction:
                transaction.drop(self._rows, delete=False)
                transaction.put(_COVERED, _COVERED_FIELDS.pack(0, 0), db=self._meta)

        await self._write_elsewhere(work)
        self._covered_log = self._sequence = 0

    async def close(self) -> None:
        """See IndexStore."""
        if self._writing is not None and not self._writing.done():
            await settled(self._writing)
        self._environment.close()


async def open_lmdb_index(directory: Path, bookie: BookieId, run: RunBlocking) -> LmdbIndex:
    """Opens the index below ``directory``; one of another bookie, or a damaged one, is emptied.

    Raises DiskFailedError when the directory cannot be used.
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
