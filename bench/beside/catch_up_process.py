"""A process of catch-up readers, each with its own connection to a bookie.

A reader repeats batch reads, one at a time, until the end of its ledger, and begins again. It only
counts what it receives, so that the process takes little CPU from the bookies, and it has the
lowest priority: in a real cluster readers run on other machines. The process reads its settings as
one line of JSON, and for each further line prints the bytes that each reader has received so far.
"""

import asyncio
import json
import os
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...client.system_runtime import run
from ...core.runtime.tasks import Tasks
from ...core.wire import v2
from ..harness.raw_connection import BenchConnection, BenchRequest
from ..harness.worker_process import WorkerProcess

_BATCH_BYTES = 2 << 20
_NICE = 19


@dataclass(frozen=True, slots=True)
class CatchUpReader:
    """The bookie that a reader reads from, and its ledger."""

    host: str
    port: int
    ledger_id: int
    last_entry: int


class CatchUpProcess(WorkerProcess):
    """A process of catch-up readers, which read while it runs."""

    def __init__(self, folder: Path, name: str, readers: Sequence[CatchUpReader]) -> None:
        settings = json.dumps([asdict(reader) for reader in readers]).encode()
        super().__init__(folder, name, main, settings)

    async def received(self) -> list[int]:
        """Return the bytes that each reader has received so far."""
        found = json.loads(await self.request())
        assert isinstance(found, list)
        return found


class _Reader:
    """One reader. ``received`` counts the bytes of the entries of completed requests."""

    def __init__(self, settings: CatchUpReader) -> None:
        self.received = 0
        self._settings = settings
        self._first = random.randrange(settings.last_entry + 1)

    async def read(self) -> None:
        settings = self._settings
        connection = await BenchConnection.connect(settings.host, settings.port)
        try:
            while True:
                await connection.run(self._request(), 1)
                self.received += connection.entry_bytes
                self._first += connection.entry_count
                if self._first > settings.last_entry:
                    self._first = 0
        finally:
            connection.close()

    def _request(self) -> Iterator[BenchRequest]:
        ledger_id = self._settings.ledger_id
        frame = v2.encode_batch_read(ledger_id, self._first, 0, count_max=0, bytes_max=_BATCH_BYTES)
        yield (ledger_id, self._first), frame


def main() -> None:
    """Read until the input ends."""
    settings = json.loads(sys.stdin.buffer.readline())
    os.nice(_NICE)
    run(_read_all([CatchUpReader(**reader) for reader in settings]))


async def _read_all(settings: Sequence[CatchUpReader]) -> None:
    failures: list[BaseException] = []
    readers = [_Reader(reader) for reader in settings]
    tasks = Tasks(on_failure=failures.append)
    for reader in readers:
        tasks.spawn(reader.read(), "reader")
    try:
        while await asyncio.to_thread(sys.stdin.buffer.readline):
            if failures:
                raise failures[0]
            print(json.dumps([reader.received for reader in readers]), flush=True)
    finally:
        await tasks.aclose()
