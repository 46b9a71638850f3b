"""Producers and consumers of a shared topic: ``-m ...programs produce|consume URI NAME RATE FILE``.

Each program appends what it does to FILE, in one write per line or batch, so the file survives a
SIGKILL. TIME is the monotonic clock of the machine in seconds. A producer writes to keys of its own
and numbers the records of each key; after a restart it continues above the numbers that it tried.

    T KEY NUMBER                              a record that is about to be appended
    A KEY NUMBER                              a record that was acknowledged
    R TIME PARTITION LSSN ENTRY SLOT          the committed position at which a member begins
    D TIME PARTITION LSSN ENTRY SLOT KEY NUMBER   a record that was delivered
    C TIME PARTITION LSSN ENTRY SLOT          a position that was committed

A program ends on SIGTERM: a producer once its records are acknowledged, a consumer at once.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path

from ...client.connect import connect
from ...client.system_runtime import run
from ...client.topics import Topics
from ...core.log.topics import group_membership
from ...core.log.topics.consumer_group import Delivery, GroupMember
from ...core.log.topics.group_membership import GroupConfig
from ...core.log.topics.topic_writer import TopicWriter
from ...core.log.write.batch import Append
from ...core.protocol.errors import RhumblineError
from ...core.runtime.tasks import Tasks

TOPIC = "shared"
GROUP = "readers"
KEYS = 8
"""Keys of each producer."""
CONFIG = GroupConfig(session_ttl_ms=3_000)
COMMIT_S = 1.0
READY = "the program works"
_IN_FLIGHT_MAX = 256
_RETRY_S = 0.5


def tried_numbers(path: Path) -> dict[str, int]:
    """Return the highest number of each key that a producer has tried, from its file."""
    found: dict[str, int] = {}
    if path.exists():
        for line in path.read_text(errors="replace").splitlines():
            words = line.split()
            if len(words) == 3 and words[0] == "T":
                found[words[1]] = max(found.get(words[1], -1), int(words[2]))
    return found


class ProducerProgram:
    """Appends records of its keys in turn."""

    def __init__(self, name: str, rate: float, path: Path) -> None:
        self._keys = [f"{name}-{number}" for number in range(KEYS)]
        tried = tried_numbers(path)
        self._next = {key: tried.get(key, -1) + 1 for key in self._keys}
        self._turn = 0
        self._pause_s = 1 / rate
        self._file = _open(path)
        self._tasks = Tasks()
        self._settled = asyncio.Event()

    async def run(self, uri: str, stop: asyncio.Event) -> None:
        """Append until ``stop`` is set; after an error continue with another writer."""
        async with connect(uri) as client:
            print(READY, flush=True)
            while not stop.is_set():
                try:
                    async with Topics(client).writer(TOPIC) as writer:
                        await self._append_all(writer, stop)
                except RhumblineError as error:
                    print(f"continuing after {error!r}", flush=True)
                    await asyncio.sleep(_RETRY_S)
            await self._tasks.aclose()

    async def _append_all(self, writer: TopicWriter, stop: asyncio.Event) -> None:
        while not stop.is_set():
            while len(self._tasks) >= _IN_FLIGHT_MAX:
                self._settled.clear()
                await self._settled.wait()
            key = self._keys[self._turn % KEYS]
            self._turn += 1
            number = self._next[key]
            self._next[key] = number + 1
            os.write(self._file, f"T {key} {number}\n".encode())
            ticket = writer.append(f"{key} {number}".encode(), key=key.encode())
            self._tasks.spawn(self._record(ticket, key, number), "record outcome")
            await asyncio.sleep(self._pause_s)
        await writer.flush()

    async def _record(self, ticket: Append, key: str, number: int) -> None:
        try:
            await ticket
        except RhumblineError as error:
            print(f"{key} {number}: {error!r}", flush=True)
        else:
            os.write(self._file, f"A {key} {number}\n".encode())
        self._settled.set()


class ConsumerProgram:
    """Delivers the records of a member, and commits each partition every ``COMMIT_S``."""

    def __init__(self, member: GroupMember, path: Path) -> None:
        self._member = member
        self._file = _open(path)
        self._uncommitted: dict[int, Delivery] = {}

    async def deliver(self) -> None:
        """Record what is delivered; after an error continue."""
        while True:
            try:
                async for delivery in self._member:
                    os.write(self._file, _lines(delivery))
                    self._uncommitted[delivery.partition] = delivery
                return
            except RhumblineError as error:
                print(f"continuing after {error!r}", flush=True)
                await asyncio.sleep(_RETRY_S)

    async def commit(self) -> None:
        """Commit what was delivered; a failed commit is repeated with the next one."""
        while True:
            await asyncio.sleep(COMMIT_S)
            for partition, delivery in list(self._uncommitted.items()):
                try:
                    await self._member.commit(delivery)
                except RhumblineError as error:
                    print(f"not committed: {error!r}", flush=True)
                    continue
                if self._uncommitted[partition] is delivery:
                    del self._uncommitted[partition]
                position = " ".join(map(str, delivery.position[:3]))
                line = f"C {time.monotonic():.3f} {partition} {position}\n"
                os.write(self._file, line.encode())


class StartRecorder(logging.Handler):
    """Records where the member begins in each partition, from its line in the log."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = _open(path)

    def emit(self, record: logging.LogRecord) -> None:
        """Append a line to the file if the record is about a committed position."""
        fields = getattr(record, "event_fields", {})
        if getattr(record, "event", "") == "committed position read":
            place = f"{fields['partition']} {fields['position'].replace(':', ' ')}"
            os.write(self._file, f"R {time.monotonic():.3f} {place}\n".encode())


async def consume(uri: str, path: Path, stop: asyncio.Event) -> None:
    """Deliver and commit until ``stop`` is set."""
    members = logging.getLogger(group_membership.__name__)
    members.setLevel(logging.INFO)
    members.addHandler(StartRecorder(path))
    async with connect(uri) as client:
        print(READY, flush=True)
        async with Topics(client).join(TOPIC, GROUP, config=CONFIG) as member:
            program, tasks = ConsumerProgram(member, path), Tasks()
            tasks.spawn(program.deliver(), "deliveries")
            tasks.spawn(program.commit(), "commits")
            await stop.wait()
            await tasks.aclose()


def _lines(delivery: Delivery) -> bytes:
    now = f"{time.monotonic():.3f}"
    lines = []
    for record in delivery.batch.records():
        lssn, entry_id, slot = record.dlsn[:3]
        text = record.payload.decode()
        lines.append(f"D {now} {delivery.partition} {lssn} {entry_id} {slot} {text}\n")
    return "".join(lines).encode()


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)


async def main(kind: str, uri: str, name: str, rate: str, path: str) -> None:
    """Run one program until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    if kind == "produce":
        await ProducerProgram(name, float(rate), Path(path)).run(uri, stop)
    else:
        await consume(uri, Path(path), stop)


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
