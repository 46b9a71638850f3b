"""An SQLite database in memory that only reads, with a limit of rows and time."""

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...client.units import show_ms
from ...core.protocol.errors import DeadlineExceededError, InvalidArgumentError
from .tables import TABLES

_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_STATEMENTS = ("select", "values", "with")
_STEPS = 10_000
"""Instructions of SQLite between two looks at the clock."""


class QueryDatabase:
    """The tables, empty until ``fill``; a query may do nothing but read them."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:")
        for table in TABLES.values():
            self._db.execute(table.definition)
        self._by_root = dict(self._db.execute("SELECT rootpage, name FROM sqlite_master"))

    def tables_of(self, query: str) -> list[str]:
        """Return the tables that a query reads. Raises InvalidArgumentError if it is not valid."""
        _check_is_select(query)
        self._db.set_authorizer(_authorize)
        try:
            steps = self._db.execute(f"EXPLAIN {query}").fetchall()
        except sqlite3.Error as error:
            raise _invalid(error) from error
        finally:
            self._db.set_authorizer(None)
        opened = {self._by_root.get(step[3]) for step in steps if step[1] == "OpenRead"}
        return [name for name in TABLES if name in opened]

    def fill(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Fill a table."""
        columns = [column.name for column in TABLES[name].columns]
        marks = ", ".join("?" * len(columns))
        values = ([_stored(row[column]) for column in columns] for row in rows)
        self._db.executemany(f"INSERT INTO {name} VALUES ({marks})", values)

    def run(
        self, query: str, *, rows_max: int, timeout_ms: int
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return the rows of a query, and whether there are more than ``rows_max``.

        Raises InvalidArgumentError, DeadlineExceededError.
        """
        _check_is_select(query)
        deadline = time.monotonic() + timeout_ms / 1000
        self._db.set_authorizer(_authorize)
        self._db.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            cursor = self._db.execute(query)
            names = _unique([column[0] for column in cursor.description or ()])
            found = cursor.fetchmany(rows_max + 1)
        except sqlite3.OperationalError as error:
            if time.monotonic() > deadline:
                message = f"the query was ended after {show_ms(timeout_ms)}"
                raise DeadlineExceededError(message) from error
            raise _invalid(error) from error
        except sqlite3.Error as error:
            raise _invalid(error) from error
        finally:
            self._db.set_progress_handler(None, 0)
            self._db.set_authorizer(None)
        rows = [dict(zip(names, row, strict=True)) for row in found[:rows_max]]
        return rows, len(found) > rows_max

    def close(self) -> None:
        """Drop the database. Safe to repeat."""
        self._db.close()


def _check_is_select(query: str) -> None:
    """Raise InvalidArgumentError for a statement such as VACUUM, which no authorizer sees."""
    word = query.split(None, 1)[0].lower() if query.strip() else ""
    if word not in _STATEMENTS:
        raise InvalidArgumentError("the query is not valid: only SELECT is allowed")


def _authorize(action: int, *_names: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _invalid(error: sqlite3.Error) -> InvalidArgumentError:
    text = str(error)
    if "not authorized" in text or "prohibited" in text:
        text = "only SELECT is allowed"
    elif "one statement at a time" in text:
        text = "only one statement is allowed"
    elif "no such table" in text or "no such column" in text:
        text += "; `rhumbline sql --tables` lists the tables and their columns"
    return InvalidArgumentError(f"the query is not valid: {text}")


def _stored(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


def _unique(names: Sequence[str]) -> list[str]:
    """Return the names of columns, those that occur again with a number."""
    found: list[str] = []
    for name in names:
        number, candidate = 1, name
        while candidate in found:
            number += 1
            candidate = f"{name}_{number}"
        found.append(candidate)
    return found
