"""The application process of one region: ``-m ...wan.programs.app JSON``.

The process reads commands from stdin, one JSON object per line. It records events in a file, one
JSON list per line, and writes each event immediately, so that no event is lost when it is killed.
Times are those of the machine's monotonic clock, which all processes share.
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
from .....core.log.read.stream_reader import StreamReader
from .....core.protocol.dlsn import Dlsn
from .....core.protocol.errors import RhumblineError, TooManyRequestsError, UnknownOutcomeError
from .....core.protocol.start import EARLIEST
from .....core.runtime.primitives.wakeup import Wakeup
from .....core.runtime.tasks import Tasks
from ....checker.history import token_of
from ... import product_settings

READY = "is ready"
NAMESPACE, STREAM = "lab", "stream"
SESSIONS_MAX = 100
"""Maximum number of writer sessions of one process, so that the processes use distinct numbers."""

_BURST_MAX = 3
_PADDING_BYTES_MAX = 60
_RETRY_S = 0.3


class EventFile:
    """The file of recorded events.

    Kinds of events: call, end, read, got, complete, reply, note.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)

    def add(self, kind: str, *values: object) -> None:
        """Append an event."""
        os.write(self._file, json.dumps([kind, now_ms(), *values]).encode() + b"\n")


def now_ms() -> float:
    """Return the time of the clock that all events use, in ms."""
    return round(time.monotonic() * 1000, 3)


class Application:
    """Writes while it is the active writer, tails the stream and executes commands."""

    def __init__(self, config: dict[str, Any], namespace: Namespace) -> None:
        self.name = str(config["name"])
        self.namespace = namespace
        self.events = EventFile(config["notes"])
        self.pause_s = 2.0 * (1 + _BURST_MAX) / 2 / float(config["appends_per_s"])
        self.is_writing = False
        self._first_session = int(config["first_session"])
        self._sessions = 0
        self._reads = 0
        self._run = int(config["run"])
        self._random = Random(f"{self.name} {self._run}")
        self._wakeup = Wakeup()

    # --- writing ----------------------------------------------------------------------------------

    def write(self, is_on: bool) -> None:
        """Start or stop writing."""
        self.is_writing = is_on
        self._wakeup.wake()

    async def keep_writing(self) -> None:
        """Write whenever the application is the active writer, until cancelled."""
        while True:
            if not self.is_writing:
                await self._wakeup.wait()
                continue
            try:
                writer = await self.namespace.open_writer(STREAM)
            except RhumblineError as error:
                self.note(f"cannot open a writer: {describe_error(error)}")
                await asyncio.sleep(_RETRY_S)
                continue
            await self._session(writer)

    def _new_session(self) -> int:
        self._sessions += 1
        assert self._sessions < SESSIONS_MAX, "an application has opened too many writers"
        return self._first_session + self._sessions

    async def _session(self, writer: Any) -> None:  # noqa: ANN401 - the core's writer or a proxy client's
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
        self.note(f"session {session} ended: {describe_error(failure) if failure else 'closed'}")
        if hasattr(writer, "abort"):
            await writer.abort()

    def _append(self, writer: Any, session: int, number: int, tasks: Tasks) -> None:  # noqa: ANN401
        size = self._random.randrange(_PADDING_BYTES_MAX)
        self.events.add("call", session, number, size)
        try:
            ticket = writer.append(token_of(session, number) + b"." * size)
        except RhumblineError as error:
            self.events.add("end", session, number, "failed", describe_error(error))
            raise
        tasks.spawn(self._record_outcome(ticket, session, number), "record outcome")

    async def _record_outcome(self, ticket: Any, session: int, number: int) -> bool:  # noqa: ANN401
        try:
            result = await ticket
        except RhumblineError as error:
            outcome = "unknown" if isinstance(error, UnknownOutcomeError) else "failed"
            self.events.add("end", session, number, outcome, describe_error(error))
            return False
        self.events.add("end", session, number, "ok", str(result.dlsn), list(result.regions))
        return True

    async def write_final_records(self, count: int) -> None:
        """Take the stream over, append ``count`` records, close the segment; retry on errors."""
        while True:
            try:
                writer = await self.namespace.open_writer(STREAM)
                session, is_acked = self._new_session(), True
                for number in range(count):
                    self.events.add("call", session, number, 0)
                    ticket = writer.append(token_of(session, number))
                    is_acked = is_acked and await self._record_outcome(ticket, session, number)
                await writer.close()
                if is_acked:
                    return
            except RhumblineError as error:
                self.note(f"cannot write the final records: {describe_error(error)}")
            await asyncio.sleep(_RETRY_S)

    # --- reading ----------------------------------------------------------------------------------

    async def tail(self) -> None:
        """Tail the stream from its start; after an error, reopen at the last position."""
        position: Dlsn | None = None
        while True:
            reader: StreamReader | None = None
            try:
                reader = await self.namespace.open_reader(STREAM, position or EARLIEST)
                read = self._new_read(f"tail {self.name}/{self._run}", position)
                while await self._take(reader, read):
                    position = reader.position
            except RhumblineError as error:
                self.note(f"the tailing reader stopped at {position}: {describe_error(error)}")
                await asyncio.sleep(_RETRY_S)
            finally:
                if reader is not None:
                    await reader.aclose()

    async def read_range(
        self, name: str, start: str | None, until: str, *, is_complete: bool = False
    ) -> None:
        """Read from ``start`` to ``until``."""
        first = Dlsn.parse(start) if start else None
        reader = await self.namespace.open_reader(STREAM, first or EARLIEST)
        try:
            read = self._new_read(name, first)
            while await self._take(reader, read, until=Dlsn.parse(until)):
                pass
            if is_complete:
                self.events.add("complete", read)
        finally:
            await reader.aclose()

    def _new_read(self, name: str, start: Dlsn | None) -> str:
        self._reads += 1
        read = f"{self.name} {self._run} {self._reads}"
        self.events.add("read", read, name, str(start) if start else None)
        return read

    async def _take(self, reader: StreamReader, read: str, *, until: Dlsn | None = None) -> bool:
        batch = await reader.next_batch(until=until)
        if batch is None:
            return False
        records = [
            [str(record.dlsn), record.payload.decode("latin-1")] for record in batch.records()
        ]
        self.events.add("got", read, records)
        return True

    async def truncate(self, position: str) -> None:
        """Truncate the stream below ``position``."""
        await self.namespace.truncate(STREAM, Dlsn.parse(position))

    def note(self, text: str) -> None:
        """Record a line for the log of the run."""
        self.events.add("note", self.name, text)

    # --- commands ---------------------------------------------------------------------------------

    async def execute(self, line: dict[str, Any]) -> None:
        """Execute one command to its end and record the reply."""
        command, number = str(line.pop("do")), int(line.pop("id"))
        try:
            match command:
                case "write":
                    self.write(**line)
                case "end":
                    await self.write_final_records(**line)
                case "read":
                    await self.read_range(**line)
                case "truncate":
                    await self.truncate(**line)
        except RhumblineError as error:
            self.events.add("reply", number, describe_error(error))
        else:
            self.events.add("reply", number, "")


async def main(config: dict[str, Any]) -> None:
    """Run until stdin is closed."""
    async with AsyncExitStack() as closing:
        namespace = await _open_namespace(config, closing)
        app = Application(config, namespace)
        tasks = Tasks(_die)
        tasks.spawn(app.keep_writing(), "write")
        if config["tails"]:
            tasks.spawn(app.tail(), "tail")
        loop = asyncio.get_running_loop()
        lines = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        print(READY, flush=True)
        while line := await lines.readline():
            tasks.spawn(app.execute(json.loads(line)), "command")


async def _open_namespace(config: dict[str, Any], closing: AsyncExitStack) -> Namespace:
    """Open the namespace through proxies or the core client; retry on errors."""
    while True:
        try:
            if config["proxies"]:
                proxy_client = await closing.enter_async_context(
                    connect_proxies(
                        config["proxies"],
                        namespace=NAMESPACE,
                        reader=product_settings.READER,
                        region=config["region"],
                    )
                )
                return cast(Namespace, proxy_client.namespace())
            client = Client(
                config["metadata"],
                namespace=NAMESPACE,
                region=config["region"],
                ledger=product_settings.LEDGER,
                writer=product_settings.WRITER,
                reader=product_settings.READER,
                metadata_timeout_ms=3_000,
            )
            return (await closing.enter_async_context(client)).namespace()
        except RhumblineError as error:
            print(
                f"cannot open the namespace: {describe_error(error)}", file=sys.stderr, flush=True
            )
            await asyncio.sleep(_RETRY_S)


def _die(error: BaseException) -> None:
    """End the process on an unexpected exception, which the lab notices and shows with the log."""
    traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(1)


def describe_error(error: BaseException) -> str:
    """Return the type and message of an error."""
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    run(main(json.loads(sys.argv[1])))
