"""A cluster in a thread of this process, with a stream that is written, rolled and archived."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar

from rhumbline.cli.servers.local_cluster import LocalCluster
from rhumbline.client.connect import Client
from rhumbline.coldstore.archive.archive_service import (
    ArchivePass,
    ArchiveService,
    ArchiveServiceConfig,
)
from rhumbline.coldstore.archive.segment_archiver import SegmentArchiver
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.read.record_batch import Record
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import LATEST

T = TypeVar("T")
STREAM = "s"
REGION = "here"


class BackgroundCluster:
    """One region, three bookies, real sockets and files; ``run`` runs coroutines on its loop."""

    def __init__(self, root: Path) -> None:
        (root / "cluster").mkdir()
        self.cold_uri = (root / "cold").as_uri()
        self.written: list[bytes] = []
        """Acknowledged payloads, in order."""
        self.passes: list[ArchivePass] = []
        self._is_stopping = False
        self._writing: asyncio.Task[None] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster")
        self._cluster = LocalCluster(
            root / "cluster", [REGION], bookies_per_region=3, round_trips_ms={}
        )
        self._background: list[asyncio.Task[None]] = []

    @property
    def metadata_uri(self) -> str:
        """URI of the metadata store."""
        return self._cluster.metadata_uri

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 60) -> T:
        """Run ``work`` on the cluster's loop to its end."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.run(self._start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self._stop())
        finally:
            self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _start(self) -> None:
        await self._cluster.start()
        self.client = Client(self.metadata_uri, namespace="test", region=REGION, cold=self.cold_uri)
        await self.client.__aenter__()
        policy = StreamPolicy(
            Quorum(3, 3, 2), roll_bytes=10_000, hot_retention_ms=0, purge_grace_ms=0
        )
        await create_namespace(self.client.store, self.client.runtime, "test", policy)
        await self.client.namespace().create_stream(STREAM)

    async def _stop(self) -> None:
        self._is_stopping = True
        if self._writing is not None:
            await self._writing
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        await self.client.aclose()
        await self._cluster.aclose()

    # --- background work ------------------------------------------------------------------------

    def start_archiving(self) -> None:
        """Start to archive completed segments."""

        async def start() -> None:
            client = self.client
            assert client._cold is not None
            known = StreamStore(client.store, "test")
            archiver = SegmentArchiver(client.runtime, client._cold, client.ledgers, known)
            service = ArchiveService(
                client.runtime,
                client.store,
                client.namespace(),
                archiver,
                config=ArchiveServiceConfig(pause_ms=200),
                on_pass=self.passes.append,
            )
            self._background.append(asyncio.ensure_future(service.run()))

        self.run(start())

    def start_writing(self, pause_s: float = 0.02) -> None:
        """Start to append records with increasing numbers, a few at a time."""

        async def write() -> None:
            async with self.client.writer(STREAM) as writer:
                while not self._is_stopping:
                    batch = [b"%08d" % (len(self.written) + n) * 12 for n in range(7)]
                    await writer.append_many(batch)
                    self.written.extend(batch)
                    await asyncio.sleep(pause_s)

        async def start() -> None:
            self._is_stopping = False
            self._writing = asyncio.ensure_future(write())

        self.run(start())

    def stop_writing(self) -> list[bytes]:
        """Close the writer, and return all records of the stream."""

        async def stop() -> None:
            assert self._writing is not None
            self._is_stopping = True
            await self._writing

        self.run(stop())
        return list(self.written)

    def end(self) -> Dlsn:
        """Return the position behind the last visible record."""

        async def read_end() -> Dlsn:
            async with self.client.reader(STREAM, LATEST) as reader:
                return reader.position

        return self.run(read_end())

    def truncate(self, position: Dlsn) -> None:
        """Hide the records below ``position``, and delete the segments entirely below it."""
        self.run(self.client.namespace().truncate(STREAM, position))

    def write_segments(self, upto: int) -> list[bytes]:
        """Write until segment ``upto`` has records, and return all records of the stream."""
        self.start_writing(pause_s=0)
        while self.end() < Dlsn(upto, 0, 1):
            time.sleep(0.01)
        return self.stop_writing()

    # --- other streams --------------------------------------------------------------------------

    def create(self, stream: str) -> None:
        """Create another stream."""
        self.run(self.client.namespace().create_stream(stream))

    def records_of(self, stream: str = STREAM) -> list[Record]:
        """Return all visible records of a stream."""

        async def read() -> list[Record]:
            async with self.client.reader(stream, LATEST) as at_end:
                until = at_end.position
            found: list[Record] = []
            async with self.client.reader(stream) as reader:
                while (batch := await reader.next_batch(until=until)) is not None:
                    found += batch.records()
            return found

        return self.run(read())
