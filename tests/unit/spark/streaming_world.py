"""A stream that is written, rolled, archived, truncated and purged, and a streaming query over it.

Ledgers and metadata are fakes in memory, and ``Query`` replaces Spark: it requests and notes
offsets, plans and reads. Everything else is production code. Time is virtual.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from rhumbline.coldstore.archive import segment_archiver as archive_module
from rhumbline.coldstore.archive.archive_service import unarchived_lssns
from rhumbline.coldstore.archive.catalog import archived_segments
from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.archive.segment_archiver import SegmentArchiver
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.namespace import Namespace, create_namespace
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.read.stream_reader import StreamReader as LogReader
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.dlsn import FIRST_DLSN, Dlsn
from rhumbline.core.protocol.start import EARLIEST, Start
from rhumbline.spark.read import planner, split_reader
from rhumbline.spark.read.bounds import parse_offsets
from rhumbline.spark.read.options import parse_options
from rhumbline.spark.read.streaming import RhumblineStreamReader
from rhumbline.tests.support.fakes.jumping_loop import JumpingLoop
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import DictColdStore

T = TypeVar("T")
Row = tuple[Dlsn, bytes]
Offsets = dict[str, str]

TTL_MS = 1000
HOT_MS = 400
GRACE_MS = 200

_VISIBLE_S = 0.1
"""Time after which acknowledged records are visible to readers."""
_POLICY = StreamPolicy(
    flush=FlushPolicy(period_ms=None),  # the test flushes each entry
    roll_bytes=1 << 40,
    retention_ms=TTL_MS,
    hot_retention_ms=HOT_MS,
    purge_grace_ms=GRACE_MS,
)


class StreamingWorld:
    """A context manager with one namespace, its cold store and the acknowledged records."""

    def __init__(self) -> None:
        self.loop = JumpingLoop()
        self.world = LogWorld()
        self.cold = DictColdStore()
        self.truth: dict[str, list[Row]] = {}
        """Acknowledged records by stream, in order."""
        self._writers: dict[str, StreamWriter] = {}
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Self:
        world = self

        class SharedRunner:
            """Replaces asyncio.Runner and uses the loop of the world."""

            def __enter__(self) -> "SharedRunner":
                return self

            def __exit__(self, *_: object) -> None:
                self.close()

            def run(self, work: Coroutine[Any, Any, T]) -> T:
                return world.run(work)

            def close(self) -> None:
                """Keep the loop, which other runners use."""

        self._patch.setattr(asyncio, "Runner", SharedRunner)
        for module in (planner, split_reader):
            self._patch.setattr(module, "new_client", lambda _: _WorldClient(self))
            self._patch.setattr(module, "open_cold_store", lambda _: self.cold)
        small = ArchiveConfig(part_bytes=2000, row_group_bytes=16)
        self._patch.setattr(archive_module, "DEFAULTS", small)
        store, runtime = self.world.store, self.world.runtime
        self.run(create_namespace(store, runtime, "test", self.world.policy))
        self.world.archives = ColdArchives(self.cold, "test")
        self.world.namespace = self.world.open_namespace()
        return self

    def __exit__(self, *_: object) -> None:
        for stream in list(self._writers):
            self.roll(stream)
        self._patch.undo()
        left = asyncio.all_tasks(self.loop)
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        assert not left, left

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` to its end in virtual time."""
        return self.loop.run_until_complete(work)

    # --- events of a stream ---------------------------------------------------------------------

    def write(self, stream: str, entries: list[int]) -> None:
        """Append one entry for each element of ``entries``, which is its number of records."""

        async def work() -> None:
            if stream not in self._writers:
                self._writers[stream] = await self.world.writer(stream, _POLICY)
            writer = self._writers[stream]
            rows = self.truth.setdefault(stream, [])
            for records in entries:
                payloads = [b"%s-%d" % (stream.encode(), len(rows) + n) for n in range(records)]
                tickets = [writer.append(payload) for payload in payloads]
                await writer.flush()
                acks = [await ticket for ticket in tickets]
                rows += [(ack.dlsn, one) for ack, one in zip(acks, payloads, strict=True)]
            await asyncio.sleep(_VISIBLE_S)

        self.run(work())

    def roll(self, stream: str) -> None:
        """Complete the segment; the next write begins another one."""
        writer = self._writers.pop(stream, None)
        if writer is not None:
            self.run(writer.close())

    def archive(self, stream: str, count: int) -> None:
        """Archive the next ``count`` completed segments and keep their ledgers."""

        async def work() -> None:
            streams = StreamStore(self.world.store, "test")
            ledgers = self.world.ledgers.client()
            archiver = SegmentArchiver(self.world.runtime, self.cold, ledgers, streams)
            for lssn in (await unarchived_lssns(self.world.namespace, stream))[:count]:
                await archiver.archive(stream, lssn)

        if stream in self.truth:
            self.run(work())

    def pass_time(self, ms: int) -> None:
        """Advance the clock of retention."""
        self.world.clock.now_ms += ms

    def maintain(self, stream: str) -> None:
        """Run a pass of retention: truncate by age, retire hot copies, purge."""
        if stream in self.truth:
            self.run(self.world.namespace.maintain(stream))

    def expire(self, stream: str) -> None:
        """Purge all completed segments but the newest, which is only truncated."""
        for ms in (TTL_MS, GRACE_MS):
            self.pass_time(ms)
            self.maintain(stream)

    def truncate(self, stream: str, permille: int) -> None:
        """Truncate at a record, inside of an entry or at its boundary."""
        rows = self.truth.get(stream)
        if rows:
            self.run(self.world.namespace.truncate(stream, rows[len(rows) * permille // 1001][0]))

    # --- state ----------------------------------------------------------------------------------

    def start(self, stream: str) -> Dlsn:
        """Return the first position that is not truncated."""
        return self.run(self.world.namespace.describe(stream)).start

    def is_purged(self, stream: str, lssn: int) -> bool:
        """True if the segment existed and its metadata was purged."""
        found = self.run(self.world.namespace.describe(stream)).segments
        return bool(found) and lssn < found[0].lssn

    def archived(self, stream: str) -> set[int]:
        """Return the LSSNs of archived segments."""
        found = self.run(archived_segments(self.cold, "test", stream))
        return {lssn for lssns in found.values() for lssn in lssns}


class _WorldClient:
    """The part of a client that the planner and the readers of ledgers use."""

    def __init__(self, world: StreamingWorld) -> None:
        self._world = world

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Do nothing: the client holds no connections."""

    def namespace(self) -> Namespace:
        return self._world.world.namespace

    @asynccontextmanager
    async def reader(self, stream: str, start: Start = EARLIEST) -> AsyncIterator[LogReader]:
        reader = await self.namespace().open_reader(stream, start)
        try:
            yield reader
        finally:
            await reader.aclose()


class Query:
    """A streaming query with a checkpoint, run as Spark does, from the earliest record on."""

    def __init__(self, world: StreamingWorld, **given: str) -> None:
        self._world = world
        fixed = {"archive": "file:///cold", "namespace": "test", "startingOffsets": "earliest"}
        self._given = {**fixed, **given}
        self._offsets: Offsets | None = None
        self._planned: Offsets | None = None
        self._splits: list[Any] = []
        self.reader = self._new_reader()

    def _new_reader(self) -> RhumblineStreamReader:
        return RhumblineStreamReader(parse_options(self._given, is_streaming=True))

    @property
    def uses_cluster(self) -> bool:
        """True if the query reads ledgers too, not only the archive."""
        return "metadata" in self._given

    def restart(self) -> None:
        """Replace the driver with another one that continues from the checkpoint."""
        self.reader.stop()
        self.reader = self._new_reader()

    def start(self) -> Offsets:
        """Return the end of the last finished batch. The first call notes where to begin."""
        if self._offsets is None:
            self._offsets = self.reader.initialOffset()
        return self._offsets

    def begin(self, rows: int | None) -> Offsets | None:
        """Note and return the end of the next batch. Return None if there is nothing new."""
        start = self.start()
        if self._planned is None:
            limit: ReadLimit = ReadAllAvailable() if rows is None else ReadMaxRows(rows)
            end = self.reader.latestOffset(start, limit)
            self._planned = None if end == start else end
        return self._planned

    def plan(self) -> None:
        """Plan the tasks of the current batch."""
        self._splits = []
        if self._planned is not None:
            self._splits = list(self.reader.partitions(self.start(), self._planned))

    def read(self) -> dict[str, list[Row]]:
        """Run the tasks and return the rows by stream, in the order of the tasks."""
        found: dict[str, list[Row]] = {}
        for split in self._splits:
            for batch in self.reader.read(split):
                columns = (batch.column(name) for name in ("stream", "dlsn", "payload"))
                for name, dlsn, payload in zip(*(c.to_pylist() for c in columns), strict=True):
                    found.setdefault(name, []).append((Dlsn.parse(dlsn), payload))
        return found

    def finish(self) -> None:
        """Note that the batch is finished."""
        self._offsets, self._planned = self._planned or self._offsets, None

    def finished_to(self, stream: str, default: Dlsn) -> Dlsn:
        """Return the end of the last finished batch."""
        return parse_offsets(self._offsets or {}).get(stream, default)

    def range_of(self, stream: str) -> tuple[Dlsn, Dlsn]:
        """Return the range of the current batch."""
        start = self.finished_to(stream, FIRST_DLSN)
        return start, parse_offsets(self._planned or self._offsets or {}).get(stream, start)
