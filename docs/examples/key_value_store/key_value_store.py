"""An example application: a replicated key-value store with compare-and-set.

All replicas append their commands to one stream and apply it in its order. A put names the version
that it expects, so of two puts that expect the same version the one that comes first in the stream
succeeds, at every replica. The log decides; replicas never talk to each other.

A replica stores its state and its position in the stream in one SQLite transaction, so it continues
after a crash without repeating or losing a command. It publishes the position in the stream too.
What is below the smallest published position is needed by no replica, and is truncated. A replica
that has lost its disk begins with a copy of another one's database.
"""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rhumbline import EARLIEST, Client, Dlsn, StreamWriter
from rhumbline.errors import (
    DuplicateRecordError,
    OwnershipLostError,
    UnavailableError,
    UnknownOutcomeError,
)
from rhumbline.typed import JsonCodec

STREAM = "store"
PAUSE_S = 0.2
TRANSIENT = (OwnershipLostError, UnavailableError, UnknownOutcomeError)
"""Errors after which a numbered command is appended again; it is in the stream once."""


@dataclass(frozen=True)
class Command:
    """A record of the stream."""

    kind: Literal["put", "position", "retire"]
    replica: str
    number: int
    key: str = ""
    value: str = ""
    expected: int = 0  # the version that the key must have; 0: it must not exist
    position: str = ""


COMMANDS = JsonCodec(Command)


class ReplicaState:
    """The state of one replica: the keys, the positions of all replicas, and its own position."""

    def __init__(self, file: Path) -> None:
        self._database = sqlite3.connect(file)
        with self._database as database:
            database.execute("CREATE TABLE IF NOT EXISTS keys (key PRIMARY KEY, value, version)")
            database.execute("CREATE TABLE IF NOT EXISTS replicas (name PRIMARY KEY, position)")
            database.execute("CREATE TABLE IF NOT EXISTS own (id PRIMARY KEY, position)")

    def close(self) -> None:
        self._database.close()

    def get(self, key: str) -> tuple[str, int] | None:
        """Return the value of a key and its version; None if it does not exist."""
        row = self._database.execute(
            "SELECT value, version FROM keys WHERE key = ?", (key,)
        ).fetchone()
        return None if row is None else (row[0], row[1])

    def everything(self) -> dict[str, tuple[str, int]]:
        rows = self._database.execute("SELECT key, value, version FROM keys").fetchall()
        return {key: (value, version) for key, value, version in rows}

    @property
    def position(self) -> Dlsn | None:
        """The position after the last command that was applied; None if there is none."""
        row = self._database.execute("SELECT position FROM own").fetchone()
        return None if row is None else Dlsn.parse(row[0])

    @property
    def smallest_position(self) -> Dlsn | None:
        """The smallest position that a replica has published."""
        rows = self._database.execute("SELECT position FROM replicas").fetchall()
        return min((Dlsn.parse(position) for (position,) in rows), default=None)

    def apply(self, commands: list[Command], position: Dlsn) -> list[bool]:
        """Apply commands and store the position after them, in one transaction.

        Return which commands took effect.
        """
        with self._database as database:
            done = [self._apply(database, command) for command in commands]
            database.execute("INSERT OR REPLACE INTO own VALUES (1, ?)", (str(position),))
        return done

    def _apply(self, database: sqlite3.Connection, command: Command) -> bool:
        if command.kind == "position":
            row = (command.replica, command.position)
            database.execute("INSERT OR REPLACE INTO replicas VALUES (?, ?)", row)
        elif command.kind == "retire":
            database.execute("DELETE FROM replicas WHERE name = ?", (command.replica,))
        else:
            found = self.get(command.key)
            version = 0 if found is None else found[1]
            if version != command.expected:
                return False
            put = (command.key, command.value, version + 1)
            database.execute("INSERT OR REPLACE INTO keys VALUES (?, ?, ?)", put)
        return True

    def copy_to(self, file: Path) -> None:
        """Write a consistent copy, from which another replica can begin."""
        with closing(sqlite3.connect(file)) as copy:
            self._database.backup(copy)


class Replica:
    """A replica of the store. ``run`` keeps it up to date; ``put`` may be called meanwhile."""

    def __init__(self, name: str, file: Path) -> None:
        self.name = name
        self.state = ReplicaState(file)
        self._producer = name.encode().ljust(16, b".")[:16]
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._writer: StreamWriter | None = None
        self._next_number: int | None = None
        self._turn = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[bool]] = {}

    # --- reading ----------------------------------------------------------------------------------

    async def run(self, client: Client) -> None:
        """Apply the stream until cancelled.

        Raises TruncatedError if the replica was away for so long that the commands it needs were
        truncated: rebuild it then from a copy of another one.
        """
        self._client.set_result(client)
        async with client.reader(STREAM, self.state.position or EARLIEST) as reader:
            async for batch in reader.batches():
                commands = [COMMANDS.decode(payload) for payload in batch.payloads()]
                done = self.state.apply(commands, reader.position)
                for command, took_effect in zip(commands, done, strict=True):
                    if command.replica == self.name and command.number in self._waiting:
                        self._waiting.pop(command.number).set_result(took_effect)

    # --- writing ----------------------------------------------------------------------------------

    async def put(self, key: str, value: str, expected: int) -> bool:
        """Set a key if its version is ``expected``, and return whether that was so."""
        return await self._propose("put", key=key, value=value, expected=expected)

    async def publish_position(self) -> None:
        """Tell all replicas how far this one is, and truncate what none of them needs."""
        position = self.state.position
        if position is None:
            return
        await self._propose("position", position=str(position))
        smallest = self.state.smallest_position
        if smallest is not None:
            await (await self._client).namespace().truncate(STREAM, smallest)

    async def retire(self, replica: str) -> None:
        """Forget the position of a replica that will not come back."""
        await self._propose("retire", about=replica)

    async def _propose(
        self,
        kind: Literal["put", "position", "retire"],
        *,
        about: str = "",
        key: str = "",
        value: str = "",
        expected: int = 0,
        position: str = "",
    ) -> bool:
        """Append a command, and return whether it took effect when this replica applied it."""
        result: asyncio.Future[bool] | None = None
        async with self._turn:
            number = await self._number()
            if about:  # a command about another replica has no result to wait for
                command = Command(kind, about, -1)
            else:
                command = Command(kind, self.name, number, key, value, expected, position)
                result = self._waiting[number] = asyncio.get_running_loop().create_future()
            await self._append(number, COMMANDS.encode(command))
            self._next_number = number + 1
        return True if result is None else await result

    async def _number(self) -> int:
        """Return the next number of this replica, which the stream remembers across restarts."""
        while self._next_number is None:
            try:
                last = (await self._open_writer()).last_sequence(self._producer)
                self._next_number = 0 if last is None else last + 1
            except TRANSIENT:
                await self._give_up_writer()
                await asyncio.sleep(PAUSE_S)
        return self._next_number

    async def _append(self, number: int, payload: bytes) -> None:
        """Append a command once, however often its writer is lost to another replica."""
        while True:
            try:
                writer = await self._open_writer()
                await writer.append_numbered(self._producer, number, [payload])
            except TRANSIENT:
                await self._give_up_writer()
                await asyncio.sleep(PAUSE_S)
            except DuplicateRecordError:
                return
            else:
                return

    async def _open_writer(self) -> StreamWriter:
        """Return the writer, which takes the stream over from another replica's if needed."""
        if self._writer is None:
            client = await self._client  # ``run`` sets it
            self._writer = await client.namespace().open_writer(STREAM)
        return self._writer

    async def _give_up_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.abort()

    async def close(self) -> None:
        """Close the writer and the database."""
        await self._give_up_writer()
        self.state.close()
