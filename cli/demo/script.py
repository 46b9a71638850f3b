"""The steps of the demo: write in one region, tail in another, cut off a third, compare.

The region that is cut off is the one nearest to the writer, so that the cut is visible in the
latency: acknowledgements need a second region, and the remaining one is farther away.
"""

import asyncio
import hashlib
import math
import time
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path

from ...client.connect import Client
from ...core.ledger.config import LedgerConfig
from ...core.log.namespace import create_namespace
from ...core.log.policy import StreamPolicy
from ...core.log.write.batch import AppendMany
from ...core.protocol.quorum import Quorum
from ...core.runtime.tasks import Tasks, wait_until_done
from ..servers.local_cluster import LocalCluster
from ..servers.local_console import start_console
from .archive_query import Archived, archive_stream
from .source import Source
from .state import TICK_SECONDS, DemoBookie, DemoState, RegionState, SegmentState

WRITER, NEAR, TAIL = "bonn", "oslo", "rome"
STREAM = "log"
NAMESPACE = "demo"
BOOKIES_PER_REGION = 2
CUT_AT, HEAL_AT = 0.4, 0.7
_QUORUM = Quorum(3, 3, 2, 2)
_SEGMENTS = 8  # segments in a run, rolled by time
_BATCH_SECONDS = 0.02
_BATCH_MAX = 5_000
_ACK_SECONDS_MAX = 60.0
_CATCH_UP_SECONDS_MAX = 30.0
_LEDGER = LedgerConfig(
    connect_timeout_ms=1_500,
    request_timeout_ms=2_000,
    underreplicated_ms_max=3_000,
    failure_memory_ms=3_000,
)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of a run."""

    seconds: float
    """Duration of the writes, if the machine is fast enough."""
    round_trips_ms: tuple[int, int, int]
    """Round trips bonn-oslo, bonn-rome, oslo-rome."""
    console_port: int | None = None
    """Port of the web console; None: it is not served."""


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Count and digest of all records that a reader received."""

    region: str
    count: int
    sha256: str


@dataclass(slots=True)
class DemoOutcome:
    """The result of a run."""

    source: Source
    acked_count: int
    readers: list[ReadBack] = field(default_factory=list)
    archived: Archived | None = None
    """None if the dependencies of archives are not installed."""

    @property
    def is_good(self) -> bool:
        """True if all records were acknowledged and archived, and every reader got the input."""
        expected = (self.source.line_count, self.source.sha256)
        archived = self.archived
        return (
            self.acked_count == self.source.line_count
            and all((reader.count, reader.sha256) == expected for reader in self.readers)
            and (archived is None or archived.record_count == self.source.line_count)
        )


class Demo:
    """A run of the demo. ``on_tick`` is called several times per second with the state."""

    def __init__(
        self, source: Source, root: Path, options: DemoOptions, on_tick: Callable[[DemoState], None]
    ) -> None:
        near, far, other = options.round_trips_ms
        self.cold = root / "cold"
        """Directory of the archive."""
        self._options = options
        self._source = source
        self._on_tick = on_tick
        self._cluster = LocalCluster(
            root,
            (WRITER, NEAR, TAIL),
            bookies_per_region=BOOKIES_PER_REGION,
            round_trips_ms={(WRITER, NEAR): near, (WRITER, TAIL): far, (NEAR, TAIL): other},
            serves_status=options.console_port is not None,
        )
        self.state = DemoState(
            source,
            [
                RegionState(WRITER, "writer", f"{NEAR} {near}, {TAIL} {far} ms", []),
                RegionState(NEAR, "", f"{WRITER} {near}, {TAIL} {other} ms", []),
                RegionState(TAIL, "tail", f"{WRITER} {far}, {NEAR} {other} ms", []),
            ],
            str(_QUORUM),
            planned_ticks=round((options.seconds + 1) / TICK_SECONDS),
        )
        self._sent: deque[tuple[int, float]] = deque()  # (records sent so far, time)
        self._tail_digest = hashlib.sha256()
        self._failure: BaseException | None = None
        self._main: asyncio.Task[object] | None = None

    async def run(self) -> DemoOutcome:
        """Run to the end. Everything is stopped on return; errors are raised after that."""
        self._main = asyncio.current_task()
        try:
            async with AsyncExitStack() as closing:
                await closing.enter_async_context(self._cluster)
                if (port := self._options.console_port) is not None:
                    url = await start_console(closing, self._cluster, WRITER, NAMESPACE, port)
                    self.state.add_event(f"the console is at {url}", "good")
                return await self._play()
        except asyncio.CancelledError:
            if self._failure is not None:
                raise self._failure from None
            raise
        finally:
            self.state.is_over = True
            self._on_tick(self.state)

    async def _play(self) -> DemoOutcome:
        state, cluster = self.state, self._cluster
        for region in state.regions:
            region.bookies = [
                DemoBookie(item.bookie.bookie_id)
                for item in cluster.bookies
                if item.region == region.name and item.bookie is not None
            ]
        ticking = Tasks(on_failure=self._on_failure)
        ticking.spawn(self._tick(), "tick")
        state.add_event(f"{len(cluster.bookies)} bookies are up in {len(cluster.regions)} regions")
        near, far, other = self._options.round_trips_ms
        state.add_event(
            f"round trips in ms: {WRITER}-{NEAR} {near}, {WRITER}-{TAIL} {far}, "
            f"{NEAR}-{TAIL} {other}"
        )
        try:
            await self._write_and_tail()
            outcome = DemoOutcome(self._source, state.acked_count)
            outcome.readers.append(ReadBack(TAIL, state.read_count, self._tail_digest.hexdigest()))
            outcome.readers.append(await self._read_back(NEAR))
            outcome.archived = await self._archive()
        finally:
            await ticking.aclose()
        return outcome

    async def _write_and_tail(self) -> None:
        followers = Tasks(on_failure=self._on_failure)
        cluster = self._cluster
        async with (
            cluster.client(WRITER, namespace=NAMESPACE, ledger=_LEDGER) as writer_client,
            cluster.client(TAIL, namespace=NAMESPACE, ledger=_LEDGER) as tail_client,
        ):
            try:
                await self._follow(followers, writer_client, tail_client)
                await self._write(writer_client)
                await self._wait_for_tail()
            finally:
                await followers.aclose()

    async def _follow(self, followers: Tasks, writer_client: Client, tail_client: Client) -> None:
        """Create the stream, and start the tail and the watcher of the segments."""
        roll_ms = max(1_000, round(self._options.seconds * 1000 / _SEGMENTS))
        policy = StreamPolicy(quorum=_QUORUM, roll_ms=roll_ms)
        await create_namespace(writer_client.store, writer_client.runtime, NAMESPACE, policy)
        await writer_client.namespace().create_stream(STREAM)
        followers.spawn(self._tail(tail_client), "tail")
        followers.spawn(self._watch_segments(writer_client), "segments")
        self.state.add_event(f"tail in {TAIL}, writer in {WRITER}: the stream is open", "good")

    # --- writing --------------------------------------------------------------------------------

    async def _write(self, client: Client) -> None:
        """Append all lines, evenly over the time, and wait for the acknowledgements."""
        state, total = self.state, self._source.line_count
        lines = self._source.lines()
        writer = await client.namespace().open_writer(STREAM)
        tickets: asyncio.Queue[tuple[AppendMany, int, float] | None] = asyncio.Queue(1_000)
        acks = Tasks(on_failure=self._on_failure)
        acking = acks.spawn(self._take_acks(tickets), "acks")
        started = time.monotonic()
        try:
            while state.sent_count < total:
                due = math.ceil(total * (time.monotonic() - started) / self._options.seconds)
                count = min(due - state.sent_count, total - state.sent_count, _BATCH_MAX)
                if count > 0:
                    now = time.monotonic()
                    tickets_of = writer.append_many(list(islice(lines, count)))
                    state.sent_count += count
                    self._sent.append((state.sent_count, now))
                    await tickets.put((tickets_of, count, now))
                    await writer.room()
                self._cut_and_heal()
                await asyncio.sleep(0 if due - state.sent_count > 0 else _BATCH_SECONDS)
            await tickets.put(None)
            async with asyncio.timeout(_ACK_SECONDS_MAX):
                await wait_until_done(acking)
            state.add_event(f"all {total:,} records are acknowledged", "good")
            await writer.close()
        except BaseException:
            await writer.abort()
            raise
        finally:
            await acks.aclose()

    async def _take_acks(
        self, tickets: "asyncio.Queue[tuple[AppendMany, int, float] | None]"
    ) -> None:
        while (item := await tickets.get()) is not None:
            ticket, count, sent_at = item
            result = await ticket
            self.state.add_acks(count, time.monotonic() - sent_at, result.regions)

    def _cut_and_heal(self) -> None:
        """Cut the near region off and reconnect it, at the planned times."""
        state = self.state
        share = state.sent_count / self._source.line_count
        near = next(region for region in state.regions if region.name == NEAR)
        if not near.is_cut and CUT_AT <= share < HEAL_AT:
            self._cluster.cut(NEAR)
            near.is_cut = True
            state.add_event(f"{NEAR} IS CUT OFF: no traffic into or out of the region", "bad")
        elif near.is_cut and share >= HEAL_AT:
            self._cluster.heal(NEAR)
            near.is_cut = False
            state.add_event(f"{NEAR} is reconnected", "good")

    # --- reading --------------------------------------------------------------------------------

    async def _tail(self, client: Client) -> None:
        """Tail the stream from its beginning."""
        state = self.state
        async with client.reader(STREAM) as reader:
            async for batch in reader.batches():
                self._tail_digest.update(b"".join(batch.payloads()))
                state.read_count += len(batch)
                now = time.monotonic()
                while self._sent and self._sent[0][0] <= state.read_count:
                    state.delivery_latency.add(now - self._sent.popleft()[1])

    async def _wait_for_tail(self) -> None:
        for _ in range(round(_CATCH_UP_SECONDS_MAX / _BATCH_SECONDS)):
            if self.state.read_count >= self._source.line_count:
                return
            await asyncio.sleep(_BATCH_SECONDS)

    async def _read_back(self, region: str) -> ReadBack:
        """Read the whole stream again, in the region that was cut off."""
        self.state.add_event(f"reading the whole stream again, in {region}")
        digest = hashlib.sha256()
        count = 0
        client = self._cluster.client(region, namespace=NAMESPACE, ledger=_LEDGER)
        async with client, client.reader(STREAM) as reader:
            async with asyncio.timeout(_CATCH_UP_SECONDS_MAX * 2):
                async for batch in reader.batches():
                    digest.update(b"".join(batch.payloads()))
                    count += len(batch)
                    if count >= self._source.line_count:
                        break
        return ReadBack(region, count, digest.hexdigest())

    async def _archive(self) -> Archived | None:
        self.state.add_event(f"archiving {STREAM} as Parquet")
        async with self._cluster.client(WRITER, namespace=NAMESPACE, ledger=_LEDGER) as client:
            return await archive_stream(client, NAMESPACE, STREAM, self.cold)

    # --- watching -------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for item in self._cluster.bookies:
                for region in self.state.regions:
                    for shown in region.bookies:
                        if item.bookie is not None and shown.bookie_id == item.bookie.bookie_id:
                            shown.entry_count = item.bookie.statistics()["entries"]
            self.state.tick()
            self._on_tick(self.state)

    async def _watch_segments(self, client: Client) -> None:
        """Refresh the segments, and add an event when one continues with other bookies."""
        namespace = client.namespace()
        while True:
            segments = []
            for segment in (await namespace.describe(STREAM)).segments:
                metadata, _ = await client.ledger_store.read(segment.ledger_id)
                fragments = tuple(
                    (fragment.first_entry_id, tuple(fragment.bookies))
                    for fragment in metadata.fragments
                )
                shown = SegmentState(
                    segment.lssn, segment.is_completed, segment.record_count, fragments
                )
                segments.append(shown)
                self._report_changes(shown)
            self.state.segments = segments
            await asyncio.sleep(2 * TICK_SECONDS)

    def _report_changes(self, segment: SegmentState) -> None:
        known = next((old for old in self.state.segments if old.lssn == segment.lssn), None)
        if known is None:
            names = ", ".join(map(_name, segment.fragments[0][1]))
            self.state.add_event(f"segment {segment.lssn} starts on {names}")
            return
        for (_, before), (first, after) in pairwise(segment.fragments[len(known.fragments) - 1 :]):
            gone = ", ".join(_name(bookie) for bookie in before if bookie not in after)
            new = ", ".join(_name(bookie) for bookie in after if bookie not in before)
            self.state.add_event(
                f"segment {segment.lssn} continues from entry {first} with {new} for {gone}", "good"
            )

    def _on_failure(self, error: BaseException) -> None:
        """End the demo because one of its tasks failed."""
        if self._failure is None and self._main is not None:
            self._failure = error
            self._main.cancel()


def _name(bookie: str) -> str:
    return bookie.partition("@")[0]
