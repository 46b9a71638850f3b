"""The application of one region, a process: ``-m ...wan.programs.app JSON``.

It is told on stdin, a JSON object a line, what to do, and writes what it sees to a file, a JSON
list a line, at once: a killed application has told all that it knew. Times are those of the
machine's monotonic clock, which all processes share.
"""

import asyncio
import json
import os
import sys
import time
import traceback
from contextlib import AsyncExitStack
from random import Random
from typing import Any, cast

from .....client.connect import Client, connect_proxies
from .....client.system_runtime import run
from .....core.log.namespace import Namespace
from .....core.log.read.positioning import EARLIEST
from .....core.log.read.stream_reader import StreamReader
from .....core.protocol.dlsn import Dlsn
from .....core.protocol.errors import RhumblineError, TooManyRequestsError, UnknownOutcomeError
from .....core.runtime.tasks import Tasks
from ....checker.history import token_of
from ... import product_settings

READY = "is ready"
NAMESPACE, STREAM = "lab", "stream"
SESSIONS_MAX = 100
"""Of one process; session numbers of different processes must differ."""

_BURST_MAX = 3
_PADDING_BYTES_MAX = 60
_RETRY_S = 0.3


class Notes:
    """The file of what was seen. Kinds: call, end, read, got, complete, reply, note."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)

    def add(self, kind: str, *what: object) -> None:
        """One line."""
        os.write(self._file, json.dumps([kind, now_ms(), *what]).encode() + b"\n")


def now_ms() -> float:
    """The clock of all notes."""
    return round(time.monotonic() * 1000, 3)


class Application:
    """Writes while it is told to, tails, and runs errands."""

    def __init__(self, told: dict[str, Any], namespace: Namespace) -> None:
        self.name = str(told["name"])
        self.namespace = namespace
        self.notes = Notes(told["notes"])
        self.pause_s = 2.0 * (1 + _BURST_MAX) / 2 / float(told["appends_per_s"])
        self.is_writing = False
        self._first_session = int(told["first_session"])
        self._sessions = 0
        self._reads = 0
        self._run = int(told["run"])
        self._random = Random(f"{self.name} {self._run}")
        self._wake = asyncio.Event()

    # --- writing --------------------------------------------------------------------------------

    def write(self, is_on: bool) -> None:
        """Whether it is told to write."""
        self.is_writing = is_on
        self._wake.set()

    async def keep_writing(self) -> None:
        """Writes whenever it is told to."""
        while True:
            if not self.is_writing:
                self._wake.clear()
                await self._wake.wait()
                continue
            try:
                writer = await self.namespace.open_writer(STREAM)
            except RhumblineError as error:
                self.note(f"cannot open a writer: {_words(error)}")
                await asyncio.sleep(_RETRY_S)
                continue
            await self._session(writer)

    def _new_session(self) -> int:
        self._sessions += 1
        assert self._sessions < SESSIONS_MAX, "an application has opened too many writers"
        return self._first_session + self._sessions

    async def _session(self, writer: Any) -> None:  # noqa: ANN401 - the core's or a thin one
        session, number, tasks = self._new_session(), 0, Tasks()
        failure: RhumblineError | None = None
        try:
            while self.is_writing:
                for _ in range(self._random.randint(1, _BURST_MAX)):
                    self._append(writer, session, number, tasks)
                    number += 1
                await asyncio.sleep(self._random.random() * self.pause_s)
                if len(tasks) > 500:
                    await writer.room()
                    await asyncio.sleep(0.05)
        except TooManyRequestsError:
            await asyncio.sleep(0.2)
        except RhumblineError as error:
            failure = error
        if failure is None:
            try:
                await writer.close()
            except RhumblineError as error:
                failure = error
        self.note(f"session {session} is over: {_words(failure) if failure else 'closed'}")
        if hasattr(writer, "abort"):
            await writer.abort()

    def _append(self, writer: Any, session: int, number: int, tasks: Tasks) -> None:  # noqa: ANN401
        size = self._random.randrange(_PADDING_BYTES_MAX)
        self.notes.add("call", session, number, size)
        try:
            ticket = writer.append(token_of(session, number) + b"." * size)
        except RhumblineError as error:
            self.notes.add("end", session, number, "failed", _words(error))
            raise
        tasks.spawn(self._hear(ticket, session, number), "hear")

    async def _hear(self, ticket: Any, session: int, number: int) -> bool:  # noqa: ANN401
        try:
            result = await ticket
        except RhumblineError as error:
            outcome = "unknown" if isinstance(error, UnknownOutcomeError) else "failed"
            self.notes.add("end", session, number, outcome, _words(error))
            return False
        self.notes.add("end", session, number, "ok", str(result.dlsn), list(result.regions))
        return True

    async def end(self, count: int) -> None:
        """Takes the stream over and has ``count`` records acknowledged; completes the segment."""
        while True:
            try:
                writer = await self.namespace.open_writer(STREAM)
                session, is_good = self._new_session(), True
                for number in range(count):
                    self.notes.add("call", session, number, 0)
                    ticket = writer.append(token_of(session, number))
                    is_good = is_good and await self._hear(ticket, session, number)
                await writer.close()
                if is_good:
                    return
            except RhumblineError as error:
                self.note(f"cannot write the end: {_words(error)}")
            await asyncio.sleep(_RETRY_S)

    # --- reading --------------------------------------------------------------------------------

    async def tail(self) -> None:
        """Reads from the start on; after an error that lasts, opens again where it was."""
        position: Dlsn | None = None
        while True:
            reader: StreamReader | None = None
            try:
                reader = await self.namespace.open_reader(STREAM, position or EARLIEST)
                read = self._new_read(f"tail {self.name}/{self._run}", position)
                while await self._take(reader, read):
                    position = reader.position
            except RhumblineError as error:
                self.note(f"the reader waits at {position}: {_words(error)}")
                await asyncio.sleep(_RETRY_S)
            finally:
                if reader is not None:
                    await reader.aclose()

    async def read_on(
        self, name: str, start: str | None, until: str, *, is_complete: bool = False
    ) -> None:
        """Reads from ``start`` to ``until``."""
        first = Dlsn.parse(start) if start else None
        reader = await self.namespace.open_reader(STREAM, first or EARLIEST)
        try:
            read = self._new_read(name, first)
            while await self._take(reader, read, until=Dlsn.parse(until)):
                pass
            if is_complete:
                self.notes.add("complete", read)
        finally:
            await reader.aclose()

    def _new_read(self, name: str, start: Dlsn | None) -> str:
        self._reads += 1
        read = f"{self.name} {self._run} {self._reads}"
        self.notes.add("read", read, name, str(start) if start else None)
        return read

    async def _take(self, reader: StreamReader, read: str, *, until: Dlsn | None = None) -> bool:
        batch = await reader.next_batch(until=until)
        if batch is None:
            return False
        records = [[str(one.dlsn), one.payload.decode("latin-1")] for one in batch.records()]
        self.notes.add("got", read, records)
        return True

    async def truncate(self, position: str) -> None:
        """Hides what is below."""
        await self.namespace.truncate(STREAM, Dlsn.parse(position))

    def note(self, text: str) -> None:
        """For the run's lines."""
        self.notes.add("note", self.name, text)

    # --- what it is told ------------------------------------------------------------------------

    async def obey(self, line: dict[str, Any]) -> None:
        """One errand, to its end; the answer is noted."""
        errand, number = str(line.pop("do")), int(line.pop("id"))
        try:
            match errand:
                case "write":
                    self.write(**line)
                case "end":
                    await self.end(**line)
                case "read":
                    await self.read_on(**line)
                case "truncate":
                    await self.truncate(**line)
        except RhumblineError as error:
            self.notes.add("reply", number, _words(error))
        else:
            self.notes.add("reply", number, "")


async def main(told: dict[str, Any]) -> None:
    """Runs until stdin ends."""
    async with AsyncExitStack() as closing:
        namespace = await _opened(told, closing)
        app = Application(told, namespace)
        tasks = Tasks(_die)
        tasks.spawn(app.keep_writing(), "write")
        if told["tails"]:
            tasks.spawn(app.tail(), "tail")
        loop = asyncio.get_running_loop()
        lines = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        print(READY, flush=True)
        while line := await lines.readline():
            tasks.spawn(app.obey(json.loads(line)), "errand")


async def _opened(told: dict[str, Any], closing: AsyncExitStack) -> Namespace:
    """The namespace, by proxies or by the core client; waits for a metadata store that is away."""
    while True:
        try:
            if told["proxies"]:
                thin = await closing.enter_async_context(
                    connect_proxies(
                        told["proxies"], namespace=NAMESPACE, reader=product_settings.READER
                    )
                )
                return cast(Namespace, thin.namespace())
            client = Client(
                told["metadata"],
                namespace=NAMESPACE,
                region=told["region"],
                ledger=product_settings.LEDGER,
                writer=product_settings.WRITER,
                reader=product_settings.READER,
                metadata_timeout_ms=3_000,
            )
            return (await closing.enter_async_context(client)).namespace()
        except RhumblineError as error:
            print(f"cannot begin: {_words(error)}", file=sys.stderr, flush=True)
            await asyncio.sleep(_RETRY_S)


def _die(error: BaseException) -> None:
    """What no caller expects ends the process: the lab sees that, and shows the log."""
    traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(1)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    run(main(json.loads(sys.argv[1])))
