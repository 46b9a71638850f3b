"""A process with many readers of one stream behind a proxy, each with a start and an end.

Each reader has a client of its own, as in a process of its own: the readers of one client share
what they receive. The process reads its settings as one line of JSON from standard input and prints
its result as another.
"""

import json
import resource
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from ...client.connect import connect_proxies
from ...client.system_runtime import run
from ...core.protocol.dlsn import Dlsn
from ...core.runtime.tasks import run_all
from ..harness.worker_process import WorkerProcess

_SECONDS_MAX = 600


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """The settings of a process: a start and a number of records for each reader."""

    uri: str
    namespace: str
    stream: str
    starts: list[str]
    counts: list[int]


@dataclass(frozen=True, slots=True)
class ReaderResult:
    """The records that the readers of a process read, and the time and CPU that this took."""

    records: list[int]
    seconds: float
    cpu_s: float

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Decode a line of JSON."""
        return cls(**json.loads(line))


class ReaderProcess(WorkerProcess):
    """A process of readers, which ends with its result."""

    def __init__(self, folder: Path, name: str, settings: ReaderSettings) -> None:
        super().__init__(folder, name, main, json.dumps(asdict(settings)).encode())

    async def result(self) -> ReaderResult:
        """Wait for the result."""
        return ReaderResult.decode(await self.response(_SECONDS_MAX))


def main() -> None:
    """Read, and print the result."""
    settings = ReaderSettings(**json.loads(sys.stdin.buffer.readline()))
    result = run(_read_all(settings))
    print(json.dumps(asdict(result)), flush=True)


async def _read_all(settings: ReaderSettings) -> ReaderResult:
    before, started = _cpu_s(), time.perf_counter()
    works = [
        _read(settings, Dlsn.parse(start), count)
        for start, count in zip(settings.starts, settings.counts, strict=True)
    ]
    records = await run_all(works, "reader")
    return ReaderResult(records, time.perf_counter() - started, _cpu_s() - before)


async def _read(settings: ReaderSettings, start: Dlsn, count: int) -> int:
    found = 0
    async with (
        connect_proxies(settings.uri, namespace=settings.namespace) as client,
        await client.namespace().open_reader(settings.stream, start) as reader,
    ):
        async for batch in reader.batches():
            found += len(batch)
            if found >= count:
                break
    return found


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
