"""The tables of the database file, and the checks of its identity, format and host."""

import os
import socket
import sqlite3
from pathlib import Path

from ...core.protocol.errors import CorruptionError, ForeignDataError

APPLICATION_ID = 0x52484D42
FORMAT = 1
CHECK_BYTES_MAX = 64 << 20
"""Files up to this size in bytes are checked completely when they are opened."""

_TABLES = """
CREATE TABLE fact (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE node (
    parent TEXT NOT NULL,
    name TEXT NOT NULL,
    data BLOB NOT NULL,
    revision INTEGER NOT NULL,
    owner TEXT,
    sequence INTEGER NOT NULL,
    UNIQUE (parent, name)
);
CREATE INDEX node_by_owner ON node (owner) WHERE owner IS NOT NULL;
CREATE TABLE lease (
    owner TEXT PRIMARY KEY, ttl_ms INTEGER NOT NULL, counter INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE change (number INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL);
"""


def prepare(connection: sqlite3.Connection, path: Path, *, adopt: bool) -> None:
    """Create the tables in a new file, or check an existing file.

    ``adopt`` lets this host take over a file that belonged to another host. Raises ForeignDataError
    (a database of another application, format or host) and CorruptionError.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        _check_identity(connection, path)
        if _pragma(connection, "application_id") == 0:
            _make(connection)
        _check_host(connection, path, adopt=adopt)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    if path.stat().st_size <= CHECK_BYTES_MAX:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise CorruptionError(f"{path} is damaged: {' '.join(verdict.split())}")


def _check_identity(connection: sqlite3.Connection, path: Path) -> None:
    application_id = _pragma(connection, "application_id")
    if application_id == 0:
        (count,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if count:
            raise ForeignDataError(f"{path} is a database of another application")
        return
    if application_id != APPLICATION_ID:
        raise ForeignDataError(f"{path} is a database of another application")
    found = _pragma(connection, "user_version")
    if found != FORMAT:
        raise ForeignDataError(f"{path} has format {found}; this release reads format {FORMAT}")


def _make(connection: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";"):
        if statement.strip():
            connection.execute(statement)
    facts = {"epoch": f"s{os.urandom(6).hex()}", "revision": 0, "boot": "", "machine": ""}
    facts["boot"], facts["machine"] = host_identity()
    connection.executemany("INSERT INTO fact VALUES (?, ?)", facts.items())
    connection.execute("INSERT INTO node VALUES ('', '', x'', 0, NULL, 0)")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def _check_host(connection: sqlite3.Connection, path: Path, *, adopt: bool) -> None:
    facts = dict(connection.execute("SELECT name, value FROM fact").fetchall())
    if not {"epoch", "revision", "boot", "machine"} <= facts.keys():
        raise CorruptionError(f"{path} is damaged: the rows for its epoch and host are missing")
    boot, machine = host_identity()
    if not adopt and facts["boot"] != boot and facts["machine"] != machine:
        raise ForeignDataError(
            f"{path} belongs to host {facts['machine']!r}, but this is {machine!r}: a SQLite store "
            "serves the processes of one host; if the file was moved permanently, open it once "
            "with ?adopt=yes"
        )
    if (facts["boot"], facts["machine"]) != (boot, machine):
        connection.execute("UPDATE fact SET value = ? WHERE name = 'boot'", (boot,))
        connection.execute("UPDATE fact SET value = ? WHERE name = 'machine'", (machine,))


def host_identity() -> tuple[str, str]:
    """Return the boot id of the kernel, which containers share, and the id of the machine."""
    boot = _line(Path("/proc/sys/kernel/random/boot_id"))
    return boot or socket.gethostname(), _line(Path("/etc/machine-id")) or socket.gethostname()


def _line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    assert isinstance(value, int)
    return value
