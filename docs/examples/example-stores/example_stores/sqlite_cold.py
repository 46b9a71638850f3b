"""A cold store in one SQLite database, for one host: ``sqlite-cold:///path/of/a.db``."""

import contextlib
import hashlib
import sqlite3
from typing import Any
from urllib.parse import unquote, urlsplit

from rhumbline.errors import (
    ConfigurationError,
    InvalidArgumentError,
    NoSuchObjectError,
    UnavailableError,
    UnknownOutcomeError,
)
from rhumbline.plugins import OBJECT_BYTES_MAX, BlockingCalls, check_key
from rhumbline.stores import ObjectStat

Rows = list[tuple[Any, ...]]

TIMEOUT_S = 60
SCHEMA = "CREATE TABLE IF NOT EXISTS objects (key TEXT PRIMARY KEY, sha256 TEXT, data BLOB)"


class SqliteColdStore:
    """Stores each object as a row; SQLite's transactions make it atomic and durable."""

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        if parts.netloc or parts.query or not parts.path.startswith("/"):
            raise ConfigurationError(f"{uri!r}: write sqlite-cold:///absolute/path/of/a.db")
        self.uri = uri
        self._path = unquote(parts.path)
        self._calls = BlockingCalls("sqlite-cold", threads=4, timeout_ms=TIMEOUT_S * 1000)

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        check_key(key)
        if len(data) > OBJECT_BYTES_MAX:
            raise InvalidArgumentError(f"{key}: more than {OBJECT_BYTES_MAX} bytes")
        row = (key, hashlib.sha256(data).hexdigest(), data)
        return (
            await self._calls.write(
                lambda: self._write("INSERT OR IGNORE INTO objects VALUES (?, ?, ?)", *row)
            )
            == 1
        )

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        query = "SELECT substr(data, ?, ?) FROM objects WHERE key = ?"
        size = OBJECT_BYTES_MAX if length is None else length
        rows = await self._calls.read(lambda: self._read(query, offset + 1, size, check_key(key)))
        if not rows:
            raise NoSuchObjectError(f"no object {key}")
        return rows[0][0] or b""  # substr of an empty value is NULL

    async def stat(self, key: str) -> ObjectStat:
        query = "SELECT length(data), sha256 FROM objects WHERE key = ?"
        rows = await self._calls.read(lambda: self._read(query, check_key(key)))
        if not rows:
            raise NoSuchObjectError(f"no object {key}")
        return ObjectStat(*rows[0])

    async def list(self, prefix: str = "") -> list[str]:
        query = "SELECT key FROM objects WHERE ? = '' OR key = ? OR key GLOB ? ORDER BY key"
        below = f"{check_key(prefix) if prefix else ''}/*"  # keys hold no characters of GLOB
        rows = await self._calls.read(lambda: self._read(query, prefix, prefix, below))
        return [key for (key,) in rows]

    async def delete(self, key: str) -> None:
        check_key(key)
        await self._calls.write(lambda: self._write("DELETE FROM objects WHERE key = ?", key))

    async def close(self) -> None:
        await self._calls.close()

    def _read(self, query: str, *values: object) -> Rows:
        try:
            with contextlib.closing(self._connect()) as database:
                return database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise UnavailableError(f"{self.uri}: {error}") from error

    def _write(self, statement: str, *values: object) -> int:
        try:
            with contextlib.closing(self._connect()) as database:
                return database.execute(statement, values).rowcount
        except sqlite3.Error as error:
            raise UnknownOutcomeError(f"{self.uri}: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=TIMEOUT_S / 2, isolation_level=None)
        database.execute(SCHEMA)
        return database
