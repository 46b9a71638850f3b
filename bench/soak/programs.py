"""The applications of a soak: ``-m ...soak.programs KIND URI REGION TLS FILE``.

Each one appends a line of JSON to FILE for every period: how many operations were done, and their
median and 99th percentile. It works until SIGTERM, then verifies what is left, and appends a last
line with its counts. A record that was acknowledged and is not read again is lost.

KIND ``stream`` appends numbers to a stream, which a tailing reader of the same program verifies.
``topic`` appends to a topic that two members of a consumer group consume and commit. ``churn``
creates streams, reads what it appended, truncates half of it and deletes the streams.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from ...client.connect import connect
from ...client.system_runtime import run
from ...client.topics import Topics
from ...core.log.api.log_client import LogClient
from ...core.log.topics.consumer_group import Delivery, GroupMember
from ...core.log.write.batch import Append
from ...core.protocol.errors import NoSuchStreamError, RhumblineError
from ...core.protocol.start import EARLIEST
from ...core.runtime.tasks import Tasks
from ...proxies.proxy_uri import is_proxy_uri
from ...security.settings import TlsSettings

READY = "the application works"
TOPIC, GROUP, PARTITIONS = "soak-topic", "soak-group", 4
STREAMS = {True: "soak-proxied", False: "soak-direct"}
"""The streams of the kind ``stream``: through proxies, or directly."""

_BURST = 20
_PAUSE_S = 0.2
_RECORD_BYTES = 500
_KEYS = 16
_CHURN_RECORDS = 200
_CHURN_PAUSE_S = 2.0
_COMMIT_S = 1.0
_RETRY_S = 0.5
_CATCH_UP_S = 120.0
_DURATIONS_MAX = 100_000


class SoakApplication:
    """The base of all applications: durations, errors and faults, written by the period."""

    def __init__(self, client: LogClient, path: Path, period_s: float, through: str) -> None:
        self.client = client
        self.through = through
        self.stopping = asyncio.Event()
        self.counts: dict[str, int] = {"appended": 0, "read": 0, "lost": 0, "errors": 0}
        self.random = Random(1)
        self.tasks = Tasks(on_failure=self._failed)
        self._durations: list[float] = []
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
        self._period_s = period_s

    def _failed(self, error: BaseException) -> None:
        self.counts["lost"] += 1  # whatever was promised does not hold
        print(f"failed: {error!r}", flush=True)

    def note(self, seconds: float) -> None:
        """Count the duration of an operation."""
        if len(self._durations) < _DURATIONS_MAX:
            self._durations.append(seconds)

    async def pause(self, seconds: float) -> bool:
        """Wait, but not longer than until the end. Return whether the work goes on."""
        try:
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        except TimeoutError:
            return True
        return False

    async def tolerate(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Repeat the work after errors, until it ends or the application does."""
        while not self.stopping.is_set():
            try:
                await work()
                return
            except RhumblineError as error:
                self.counts["errors"] += 1
                print(f"continuing after {error!r}", flush=True)
                await self.pause(_RETRY_S)

    async def report(self) -> None:
        """Write a line for each period, until cancelled."""
        while True:
            await asyncio.sleep(self._period_s)
            found, self._durations = sorted(self._durations), []
            if found:
                p50, p99 = found[len(found) // 2], found[len(found) * 99 // 100]
                self._write({"at": time.monotonic(), "n": len(found), "p50": p50, "p99": p99})

    def finish(self) -> None:
        """Write the last line."""
        self._write({"done": True, **self.counts})

    def _write(self, row: dict[str, object]) -> None:
        os.write(self._file, json.dumps(row).encode() + b"\n")


class NumberedStream(SoakApplication):
    """Appends numbers to a stream, and reads them at its tail."""

    def __init__(self, client: LogClient, path: Path, period_s: float, through: str) -> None:
        super().__init__(client, path, period_s, through)
        self._stream = STREAMS[is_proxy_uri(through)]
        self._next = 0
        self._unknown: set[int] = set()
        """Numbers that were appended and not acknowledged."""
        self._skipped: set[int] = set()
        """Unknown numbers that the reader did not find in their place."""
        self._acknowledged = -1
        self._read = -1
        self._has_read = asyncio.Event()

    async def run(self) -> None:
        """Append and read until the end; then read the rest."""
        self.tasks.spawn(self._tail(), "tailing reader")
        await self.tolerate(self._append)
        async with asyncio.timeout(_CATCH_UP_S):
            while self._read < self._acknowledged:
                self._has_read.clear()
                await self._has_read.wait()

    async def _append(self) -> None:
        async with self.client.writer(self._stream) as writer:
            while await self.pause(_PAUSE_S):
                began, tickets = time.monotonic(), list[tuple[int, Append]]()
                for _ in range(_BURST):
                    number, self._next = self._next, self._next + 1
                    self._unknown.add(number)
                    filler = self.random.randbytes(_RECORD_BYTES)
                    tickets.append((number, writer.append(b"%012d" % number + filler)))
                for number, ticket in tickets:
                    await ticket
                    self._unknown.discard(number)
                    self.counts["lost"] += number in self._skipped
                    self._acknowledged = number
                self.note(time.monotonic() - began)
                self.counts["appended"] += len(tickets)

    async def _tail(self) -> None:
        """Verify that no number is missing, except those of failed appends, and none goes back."""
        while True:
            try:
                async with self.client.reader(self._stream, EARLIEST) as reader:
                    while (batch := await reader.next_batch()) is not None:
                        for payload in batch.payloads():
                            self._take(int(bytes(payload[:12])))
                        self._has_read.set()
            except RhumblineError as error:
                self.counts["errors"] += 1
                print(f"the reader continues after {error!r}", flush=True)
                await asyncio.sleep(_RETRY_S)

    def _take(self, number: int) -> None:
        if number <= self._read:
            return  # the reader was opened again
        absent = range(self._read + 1, number)
        self._skipped.update(self._unknown.intersection(absent))
        if missing := [n for n in absent if n not in self._unknown]:
            self.counts["lost"] += len(missing)
            print(f"lost {missing[0]} to {missing[-1]}", flush=True)
        self._read = number
        self.counts["read"] += 1


class SharedTopicLoad(SoakApplication):
    """Appends to a topic by key, and consumes it with two members of a group."""

    def __init__(self, client: LogClient, path: Path, period_s: float, through: str) -> None:
        super().__init__(client, path, period_s, through)
        self._highest: dict[bytes, int] = {}
        self._acknowledged: dict[bytes, int] = {}

    async def run(self) -> None:
        """Append and consume until the end; then consume the rest."""
        topics = Topics(self.client)
        async with topics.join(TOPIC, GROUP) as one, topics.join(TOPIC, GROUP) as other:
            for member in (one, other):
                self.tasks.spawn(self._consume(member), "member")
            await self.tolerate(self._append)
            async with asyncio.timeout(_CATCH_UP_S):
                while any(self._highest.get(k, -1) < n for k, n in self._acknowledged.items()):  # noqa: ASYNC110 - two members count
                    await asyncio.sleep(_RETRY_S)
            await self.tasks.aclose()

    async def _append(self) -> None:
        keys = [b"key-%d" % n for n in range(_KEYS)]
        number = max(self._acknowledged.values(), default=0)
        async with Topics(self.client).writer(TOPIC) as writer:
            while await self.pause(_PAUSE_S):
                began, number = time.monotonic(), number + 1
                tickets = [
                    writer.append(b"%s %d " % (key, number) + bytes(_RECORD_BYTES), key=key)
                    for key in keys
                ]
                for key, ticket in zip(keys, tickets, strict=True):
                    await ticket
                    self._acknowledged[key] = number
                self.note(time.monotonic() - began)
                self.counts["appended"] += len(keys)

    async def _consume(self, member: GroupMember) -> None:
        uncommitted: dict[int, Delivery] = {}
        committed_at = time.monotonic()
        while True:
            try:
                async for delivery in member:
                    for payload in delivery.batch.payloads():
                        key, number, _ = bytes(payload).split(b" ", 2)
                        self._highest[key] = max(self._highest.get(key, -1), int(number))
                        self.counts["read"] += 1
                    uncommitted[delivery.partition] = delivery
                    if time.monotonic() - committed_at >= _COMMIT_S:
                        for one in uncommitted.values():
                            await member.commit(one)
                        uncommitted, committed_at = {}, time.monotonic()
                return
            except RhumblineError as error:
                self.counts["errors"] += 1
                uncommitted.clear()
                print(f"the member continues after {error!r}", flush=True)
                await asyncio.sleep(_RETRY_S)


class StreamChurn(SoakApplication):
    """Creates, fills, reads, truncates and deletes streams, one after the other."""

    def __init__(self, client: LogClient, path: Path, period_s: float, through: str) -> None:
        super().__init__(client, path, period_s, through)
        self._number = 0

    async def run(self) -> None:
        """Make streams until the end."""
        while await self.pause(_CHURN_PAUSE_S):
            self._number += 1
            await self.tolerate(self._one)

    async def _one(self) -> None:
        name, namespace, began = f"churn-{self._number}", self.client.namespace(), time.monotonic()
        try:
            await namespace.delete_stream(name)  # of an attempt that failed
        except NoSuchStreamError:
            self.counts["streams"] = self.counts.get("streams", 0) + 1
        await namespace.create_stream(name)
        async with self.client.writer(name) as writer:
            tickets = [
                writer.append(b"%d " % n + bytes(_RECORD_BYTES)) for n in range(_CHURN_RECORDS)
            ]
            places = [await ticket for ticket in tickets]
        end = await namespace.end(name)
        async with self.client.reader(name, EARLIEST) as reader:
            found = 0
            while (batch := await reader.next_batch(until=end)) is not None:
                found += sum(1 for _ in batch.payloads())
        self.counts["appended"] += _CHURN_RECORDS
        self.counts["read"] += found
        self.counts["lost"] += _CHURN_RECORDS - found
        await namespace.truncate(name, places[_CHURN_RECORDS // 2].dlsn)
        await namespace.delete_stream(name)
        self.note(time.monotonic() - began)


KINDS: dict[str, type[NumberedStream] | type[SharedTopicLoad] | type[StreamChurn]] = {
    "stream": NumberedStream,
    "topic": SharedTopicLoad,
    "churn": StreamChurn,
}


@asynccontextmanager
async def connected(uri: str, region: str, tls: TlsSettings) -> AsyncIterator[LogClient]:
    """Connect directly, or through proxies."""
    if is_proxy_uri(uri):
        async with connect(uri, tls=tls) as client:
            yield client
    else:
        async with connect(uri, region=region, tls=tls) as client:
            yield client


async def main(kind: str, uri: str, region: str, tls: str, path: str, period_s: str) -> None:
    """Run one application until SIGTERM."""
    async with connected(uri, region, TlsSettings(**json.loads(tls))) as client:
        application = KINDS[kind](client, Path(path), float(period_s), uri)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, application.stopping.set)
        reporting = Tasks()
        reporting.spawn(application.report(), "report")
        print(READY, flush=True)
        await application.run()
        await application.tasks.aclose()
        await reporting.aclose()
        application.finish()


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
