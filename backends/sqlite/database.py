"""The blocking part of the SQLite store: one connection, used by one thread.

Every method is one short transaction. The database is in WAL mode with ``synchronous=FULL``: a
commit that has returned is on disk. ``BEGIN IMMEDIATE`` serialises the writers of all processes; a
writer that waits beyond its deadline raises MetadataUnavailableError.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from ...core.protocol.errors import (
    ConfigurationError,
    CorruptionError,
    ForeignDataError,
    IndeterminateError,
    MetadataUnavailableError,
    NoNodeError,
    RhumblineError,
    SessionLostError,
)
from ...core.runtime.metadata_store import Value, Version, parent_of
from ..leases import Lease, Owner
from ..migration_fence import FENCE_PATH, FenceState
from ..transaction_plan import Node, TransactionPlan
from .schema import prepare

PAGE = 2_000
"""Number of nodes in a page of a full scan."""

CHANGES_KEPT = 10_000
"""Number of newest change log entries that are kept; a handle further behind fires all watches."""

_TIMEOUT_STEP_MS = 500
"""Longer lock timeouts are multiples of this, so that few transactions need to set a new one."""

ReadBody = Callable[["SqliteReader"], object]
"""Work on a snapshot."""

WriteBody = Callable[["SqliteWriter"], object]
"""Work inside a write transaction."""


class BusyError(MetadataUnavailableError):
    """Other writers held the file until the deadline; nothing was written."""


class Database:
    """An open database file. ``deadline`` arguments are ``time.monotonic()`` seconds."""

    def __init__(self, path: Path, *, adopt: bool, deadline: float) -> None:
        if path.is_dir() or not path.parent.is_dir():
            raise ConfigurationError(f"{path} is not a file in an existing directory")
        self._path = path
        self._busy_timeout_ms = 0
        self._commits = 0
        self._checked_version = (-1, -1)
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            with self._mapped_errors():
                self._set_up(deadline)
                prepare(self._connection, path, adopt=adopt)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def read(self, bodies: Sequence[ReadBody], deadline: float) -> list[object]:
        """Run ``bodies`` on one snapshot; return what each returned or raised.

        An error of SQLite is raised, because it concerns all bodies. Any other error is the outcome
        of its body alone.
        """
        with self._mapped_errors():
            self._wait_at_most(deadline)
            self._connection.execute("BEGIN")
            try:
                reader = SqliteReader(self._connection)
                return [_outcome_of(body, reader) for body in bodies]
            finally:
                self._connection.execute("ROLLBACK")

    def write(self, bodies: Sequence[WriteBody], deadline: float) -> list[object]:
        """Run ``bodies`` in one transaction with one commit; return what each returned or raised.

        A body may raise a RhumblineError before it writes anything, which does not affect the
        others. Any other failure is raised and applies to all bodies, such as BusyError if the
        write lock was not obtained by ``deadline``.
        """
        with self._mapped_errors():
            self._wait_at_most(deadline)
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                writer = SqliteWriter(self._connection)
                outcomes = [self._write_single(body, writer) for body in bodies]
                writer.finish()
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._commit()
            self._commits += 1
            return outcomes

    def _write_single(self, body: WriteBody, writer: "SqliteWriter") -> object:
        rows_before = self._connection.total_changes
        try:
            return body(writer)
        except RhumblineError as error:
            if self._connection.total_changes != rows_before:
                raise AssertionError("it wrote before it raised") from error
            return error

    def changes_after(self, number: int, reader: "SqliteReader") -> tuple[int, list[str] | None]:
        """Return what ``reader.changes_after`` returns, without that call if nothing was committed.

        One pragma tells whether anything was committed since the last call.
        """
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if number >= 0 and (version, self._commits) == self._checked_version:
            return number, []
        self._checked_version = (version, self._commits)
        return reader.changes_after(number)

    def _set_up(self, deadline: float) -> None:
        self._wait_at_most(deadline)
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                # The busy timeout does not apply if several processes set the mode of a new file.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                self._wait_at_most(deadline)
                time.sleep(0.01)
        self._connection.execute("PRAGMA synchronous = FULL")

    def _commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
                if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL):
                    raise
            raise IndeterminateError(f"{self._path}: commit failed: {error}") from error

    def _wait_at_most(self, deadline: float) -> None:
        """Limit SQLite's wait for the lock to the time left, rounded down to a multiple of 500 ms.

        Raises BusyError if no time is left.
        """
        remaining_ms = int((deadline - time.monotonic()) * 1000)
        if remaining_ms <= 0:
            raise BusyError(f"{self._path}: locked by other writers until the deadline")
        if remaining_ms > _TIMEOUT_STEP_MS:
            remaining_ms -= remaining_ms % _TIMEOUT_STEP_MS
        if remaining_ms != self._busy_timeout_ms:
            self._connection.execute(f"PRAGMA busy_timeout = {remaining_ms}")
            self._busy_timeout_ms = remaining_ms

    @contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        """Convert SQLite's errors."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if primary == sqlite3.SQLITE_NOTADB:
                raise ForeignDataError(f"{self._path} is not a SQLite database") from error
            if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):  # ERROR: no such table
                raise CorruptionError(f"{self._path} is damaged: {error}") from error
            if primary == sqlite3.SQLITE_BUSY:
                raise BusyError(f"{self._path}: {error}") from error
            raise MetadataUnavailableError(f"{self._path}: {error}") from error


class SqliteReader:
    """Reads within a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._fence: FenceState | None = None

    @property
    def fence(self) -> FenceState:
        """The migration fence as this transaction sees it."""
        if self._fence is None:
            rows = self._connection.execute(
                "SELECT name, value FROM fact"
                " WHERE name IN ('epoch', 'tree', 'successor', 'mover', 'is_partial')"
            )
            facts = dict(rows.fetchall())
            facts.setdefault("tree", facts["epoch"])
            facts["is_partial"] = bool(facts.get("is_partial"))
            self._fence = FenceState(**facts)
        return self._fence

    def node(self, path: str) -> Node | None:
        """Return the node at ``path``, or None."""
        row = self._connection.execute(
            "SELECT data, revision, owner, sequence FROM node WHERE parent = ? AND name = ?",
            _key(path),
        ).fetchone()
        if row is None:
            return None
        data, revision, owner, sequence = row
        return Node(data, self.version(revision), owner, sequence)

    def child_names(self, path: str, limit: int) -> list[str]:
        """Return the first ``limit`` names of children, in order."""
        return self._names(path, "", limit)

    def value(self, path: str, *, stale_ok: bool) -> Value:
        """Return the result of ``get``. Raises NoNodeError, StoreFencedError."""
        if not stale_ok:
            self.fence.check_open()
        node = self.node(path)
        if node is None:
            raise NoNodeError(path)
        return Value(node.data, node.version)

    def value_if_exists(self, path: str, *, stale_ok: bool) -> Value | None:
        """Return the result of ``get``, None if the node does not exist."""
        try:
            return self.value(path, stale_ok=stale_ok)
        except NoNodeError:
            return None

    def names_after(
        self, path: str, after: str | None, limit: int | None, *, stale_ok: bool
    ) -> list[str]:
        """Return the result of ``children``. Raises NoNodeError, StoreFencedError."""
        if not stale_ok:
            self.fence.check_open()
        if self.node(path) is None:
            raise NoNodeError(path)
        return self._names(path, after or "", -1 if limit is None else limit)

    def leases(self) -> dict[Owner, Lease]:
        """Return all leases."""
        rows = self._connection.execute("SELECT owner, ttl_ms, counter FROM lease").fetchall()
        return {Owner(owner): Lease(ttl_ms, counter) for owner, ttl_ms, counter in rows}

    def changes_after(self, number: int) -> tuple[int, list[str] | None]:
        """Return the number of the last change, and the paths changed after ``number``.

        The paths are None if the change log does not reach back to ``number``.
        """
        first, last = self._connection.execute(  # min and max in one SELECT read the whole table
            "SELECT (SELECT min(number) FROM change), (SELECT max(number) FROM change)"
        ).fetchone()
        if last is None:
            return 0, []
        if first > number + 1:
            return last, None
        rows = self._connection.execute("SELECT path FROM change WHERE number > ?", (number,))
        return last, [path for (path,) in rows]

    def version(self, revision: int) -> Version:
        """Return the version of a node that was written at a revision."""
        return Version(f"{self.fence.epoch}.{revision}")

    def page(self, after: int) -> tuple[int, list[tuple[str, Node]]]:
        """Return the last row (-1 if there is none) and the nodes of the page after a row."""
        rows = self._connection.execute(
            "SELECT rowid, parent, name, data, revision, owner, sequence FROM node"
            " WHERE rowid > ? ORDER BY rowid LIMIT ?",
            (after, PAGE),
        ).fetchall()
        nodes = [
            (_path(parent, name), Node(data, self.version(revision), owner, sequence))
            for _, parent, name, data, revision, owner, sequence in rows
        ]
        return (rows[-1][0] if rows else -1), nodes

    def _names(self, path: str, after: str, limit: int) -> list[str]:
        rows = self._connection.execute(
            "SELECT name FROM node WHERE parent = ? AND name > ? ORDER BY name LIMIT ?",
            (path, after, limit),
        )
        return [name for (name,) in rows]


class SqliteWriter(SqliteReader):
    """Reads and writes within a transaction, which ``finish`` completes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._revision: int | None = None  # of the last write; None: none so far
        self._changed: list[tuple[str]] = []  # the paths for the change log

    def plan(self, allowed_fence: FenceState | None = None) -> TransactionPlan:
        """Return an empty plan for this transaction. Raises StoreFencedError."""
        self.fence.check(allowed_fence)
        return TransactionPlan(self)

    def commit(self, plan: TransactionPlan) -> Version:
        """Write the changes of a plan; return their version."""
        run = self._connection.execute
        revision = self._next_revision()
        for path, change in plan.changes.items():
            key = _key(path)
            if change.data is None:
                run("DELETE FROM node WHERE parent = ? AND name = ?", key)
            elif change.is_new:
                row = (*key, change.data, revision, change.owner, change.sequence)
                run("INSERT INTO node VALUES (?, ?, ?, ?, ?, ?)", row)
            elif change.is_written:
                run(
                    "UPDATE node SET data = ?, revision = ?, owner = ?, sequence = ?"
                    " WHERE parent = ? AND name = ?",
                    (change.data, revision, change.owner, change.sequence, *key),
                )
            else:
                run(
                    "UPDATE node SET sequence = ? WHERE parent = ? AND name = ?",
                    (change.sequence, *key),
                )
            if change.is_written:
                self._log(path)
        return self.version(revision)

    def swap_fence(self, old: FenceState, new: FenceState) -> bool:
        """Replace the fence if it is ``old``; False if it is not."""
        if self.fence != old:
            return False
        facts = [(name, value) for name, value in asdict(new).items() if value is not None]
        self._connection.execute(
            "DELETE FROM fact WHERE name IN ('successor', 'mover', 'is_partial')"
        )
        self._connection.executemany("INSERT OR REPLACE INTO fact VALUES (?, ?)", facts)
        self._log(FENCE_PATH)
        self._fence = None
        return True

    def raise_sequence(self, path: str, number: int) -> None:
        """Make ``number`` the minimum number of the next sequential child."""
        self._connection.execute(
            "UPDATE node SET sequence = max(sequence, ?) WHERE parent = ? AND name = ?",
            (number, *_key(path)),
        )

    def add_lease(self, owner: Owner, ttl_ms: int) -> None:
        """Create a lease if it does not exist. Raises StoreFencedError."""
        self.fence.check_open()
        self._connection.execute("INSERT OR IGNORE INTO lease VALUES (?, ?, 0)", (owner, ttl_ms))

    def renew_lease(self, owner: Owner) -> bool:
        """Increment the counter; False if the lease no longer exists."""
        cursor = self._connection.execute(
            "UPDATE lease SET counter = counter + 1 WHERE owner = ?", (owner,)
        )
        return cursor.rowcount == 1

    def check_lease(self, owner: Owner) -> None:
        """Raise SessionLostError if the lease no longer exists."""
        row = self._connection.execute("SELECT 1 FROM lease WHERE owner = ?", (owner,)).fetchone()
        if row is None:
            raise SessionLostError(f"session {owner} has ended")

    def end_lease(self, owner: Owner, counter: int | None) -> None:
        """Remove a lease and its nodes if the counter is still ``counter`` (None: any)."""
        row = self._connection.execute(
            "SELECT counter FROM lease WHERE owner = ?", (owner,)
        ).fetchone()
        if row is None or counter not in (None, row[0]):
            return
        self._connection.execute("DELETE FROM lease WHERE owner = ?", (owner,))
        rows = self._connection.execute("SELECT parent, name FROM node WHERE owner = ?", (owner,))
        for parent, name in rows.fetchall():
            self._connection.execute(
                "DELETE FROM node WHERE parent = ? AND name = ?", (parent, name)
            )
            self._log(_path(parent, name))

    def finish(self) -> None:
        """Store what all bodies together have changed, before the commit."""
        if self._revision is not None:
            self._connection.execute(
                "UPDATE fact SET value = ? WHERE name = 'revision'", (self._revision,)
            )
        if self._changed:
            self._connection.executemany("INSERT INTO change (path) VALUES (?)", self._changed)
            self._connection.execute(
                "DELETE FROM change WHERE number <= (SELECT max(number) FROM change) - ?",
                (CHANGES_KEPT,),
            )

    def _next_revision(self) -> int:
        if self._revision is None:
            ((stored,),) = self._connection.execute(
                "SELECT value FROM fact WHERE name = 'revision'"
            ).fetchall()
            self._revision = int(stored)
        self._revision += 1
        return self._revision

    def _log(self, path: str) -> None:
        self._changed.append((path,))


def _outcome_of(body: ReadBody, reader: SqliteReader) -> object:
    try:
        return body(reader)
    except sqlite3.Error:
        raise
    except Exception as error:  # the caller of the body gets it
        return error


def _path(parent: str, name: str) -> str:
    return f"{'' if parent == '/' else parent}/{name}"


def _key(path: str) -> tuple[str, str]:
    """Return (parent, name); the root is ("", "")."""
    return ("", "") if path == "/" else (parent_of(path), path.rpartition("/")[2])
