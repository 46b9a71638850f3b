"""An example application: the changes of a SQLite database reach another database.

Triggers of the source write each change into a table, in the transaction that makes it. The
publisher appends the changes to a stream, numbered by that table, so that a change is in the stream
once although the publisher may stop anywhere. The subscriber applies them to the target and stores
its position in the same transaction. So the target always equals the source as it was after some
transaction, and no change is lost, repeated or out of order.
"""

import asyncio
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from rhumbline import EARLIEST, Client, Dlsn, StreamWriter
from rhumbline.errors import OwnershipLostError, UnavailableError, UnknownOutcomeError
from rhumbline.typed import JsonCodec

STREAM = "customer-changes"
PUBLISHER = b"customers-db".ljust(16, b".")
CHANGES_AT_ONCE = 100
PAUSE_S = 0.2
TRANSIENT = (OwnershipLostError, UnavailableError, UnknownOutcomeError)

_SOURCE = """
CREATE TABLE IF NOT EXISTS customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE IF NOT EXISTS changes
    (number INTEGER PRIMARY KEY, id INTEGER, name TEXT, city TEXT, is_deleted INTEGER);
CREATE TABLE IF NOT EXISTS published (next INTEGER);
INSERT INTO published SELECT 0 WHERE NOT EXISTS (SELECT * FROM published);
CREATE TRIGGER IF NOT EXISTS inserted AFTER INSERT ON customers BEGIN
    INSERT INTO changes SELECT coalesce(max(number) + 1, (SELECT next FROM published)),
        NEW.id, NEW.name, NEW.city, 0 FROM changes;
END;
CREATE TRIGGER IF NOT EXISTS updated AFTER UPDATE ON customers BEGIN
    INSERT INTO changes SELECT coalesce(max(number) + 1, (SELECT next FROM published)),
        NEW.id, NEW.name, NEW.city, 0 FROM changes;
END;
CREATE TRIGGER IF NOT EXISTS deleted AFTER DELETE ON customers BEGIN
    INSERT INTO changes SELECT coalesce(max(number) + 1, (SELECT next FROM published)),
        OLD.id, '', '', 1 FROM changes;
END;
"""
_TARGET = """
CREATE TABLE IF NOT EXISTS customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE IF NOT EXISTS position (id INTEGER PRIMARY KEY, value TEXT);
"""


@dataclass(frozen=True)
class Change:
    """A row of the source after a change, or the id of a deleted row."""

    id: int
    name: str
    city: str
    is_deleted: bool


CHANGES = JsonCodec(Change)


def open_source(file: Path) -> sqlite3.Connection:
    """Open the source database. Applications change ``customers`` as they like."""
    database = sqlite3.connect(file)
    database.executescript(_SOURCE)
    return database


def open_target(file: Path) -> sqlite3.Connection:
    """Open the target database, for reading or for the subscriber."""
    database = sqlite3.connect(file)
    database.executescript(_TARGET)
    return database


def customers(database: sqlite3.Connection) -> list[tuple[int, str, str]]:
    """Return all customers of the source or the target."""
    return database.execute("SELECT id, name, city FROM customers ORDER BY id").fetchall()


class Publisher:
    """Appends the changes of the source to the stream."""

    def __init__(self, source: sqlite3.Connection) -> None:
        self._source = source

    async def run(self, client: Client) -> None:
        """Publish changes until cancelled."""
        while True:
            try:
                async with client.writer(STREAM) as writer:
                    last = writer.last_sequence(PUBLISHER)
                    self._forget_before(0 if last is None else last + 1)
                    while True:
                        await self._publish_waiting(writer)
                        await asyncio.sleep(PAUSE_S)
            except TRANSIENT:
                await asyncio.sleep(PAUSE_S)  # a repeat appends nothing twice

    async def _publish_waiting(self, writer: StreamWriter) -> None:
        while rows := self._waiting():
            first = rows[0][0]
            changes = [CHANGES.encode(Change(*row[1:4], bool(row[4]))) for row in rows]
            await writer.append_numbered(PUBLISHER, first, changes)
            self._forget_before(first + len(rows))

    def _waiting(self) -> list[tuple[int, int, str, str, int]]:
        query = "SELECT number, id, name, city, is_deleted FROM changes ORDER BY number LIMIT ?"
        return self._source.execute(query, (CHANGES_AT_ONCE,)).fetchall()

    def _forget_before(self, number: int) -> None:
        """Delete the changes that are in the stream."""
        with self._source as source:
            source.execute("DELETE FROM changes WHERE number < ?", (number,))
            source.execute("UPDATE published SET next = max(next, ?)", (number,))


class Subscriber:
    """Applies the changes in the stream to the target."""

    def __init__(self, target: sqlite3.Connection) -> None:
        self._target = target

    async def run(self, client: Client) -> None:
        """Apply changes until cancelled."""
        row = self._target.execute("SELECT value FROM position").fetchone()
        start = EARLIEST if row is None else Dlsn.parse(row[0])
        async with client.reader(STREAM, start) as reader:
            async for batch in reader.batches():
                with self._target as target:  # the changes and the position in one transaction
                    for payload in batch.payloads():
                        self._apply(target, CHANGES.decode(payload))
                    position = (1, str(reader.position))
                    target.execute("INSERT OR REPLACE INTO position VALUES (?, ?)", position)

    def _apply(self, target: sqlite3.Connection, change: Change) -> None:
        if change.is_deleted:
            target.execute("DELETE FROM customers WHERE id = ?", (change.id,))
        else:
            row = (change.id, change.name, change.city)
            target.execute("INSERT OR REPLACE INTO customers VALUES (?, ?, ?)", row)
