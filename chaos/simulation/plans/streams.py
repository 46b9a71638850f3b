"""The plan ``streams``: ``swarm`` with every stream operation.

These are numbered records, record sets, transaction ids, truncation and ends of streams. The
choices come from a separate generator, so that the draws of ``swarm`` do not shift.
"""

import asyncio
from dataclasses import replace
from itertools import count
from random import Random

from ....core.bookie.config import KIB
from ....core.log.read.stream_reader import StreamReader
from ....core.log.write.batch import Append as Ticket
from ....core.log.write.stream_writer import StreamWriter
from ....core.protocol.dlsn import Dlsn
from ....core.protocol.errors import (
    ReaderStalledError,
    RhumblineError,
    StreamIdleError,
    TruncatedError,
)
from ....core.protocol.record_set import TXID_FIRST, encode_record_set
from ....core.protocol.start import EARLIEST
from ....core.runtime.tasks import Tasks
from ...checker.history import EndQuery, History, LateAdd, RecordedAppend, RecordedRead
from ...checker.judge import judge
from ...checker.run_record import RunRecord, Violation
from ..cluster import PORT, STREAM, SimClient
from ..entry_probe import send_late_adds
from ..seed_run import RunPlan, SeedRun
from ..workload.idempotent_producers import IdempotentProducers
from ..workload.stream_actions import take
from ..workload.stream_workload import StreamWorkload
from ..workload.workload import Applications
from ..world.sim_world import SimHost, SimWorld
from .swarm import swarm

PRODUCERS = 3
_FORGET_S = 5.0
"""Time after the run for bookies to collect the last deleted ledgers."""


def streams(seed: int) -> RunPlan:
    """Return a plan of ``swarm`` whose applications use every stream operation."""
    random = Random(f"{seed} streams")
    plan = swarm(seed)
    settings = plan.settings
    policy = replace(
        settings.policy,
        flush=replace(settings.policy.flush, visibility_ms=random.choice((0, 0, 3, 300))),
        keepalive_ms=random.choice((None, None, 300, 2_000)),
        roll_bytes=random.choice((2_000, 8_000, 50_000)),
        roll_ms=random.choice((700, 1_500, 7_200_000)),
        retention_ms=random.choice((None, None, 2_000, 6_000)),
        purge_grace_ms=random.choice((0, 100, 2_000)),
    )
    settings = replace(
        settings,
        policy=policy,
        writer=replace(
            settings.writer, producers_snapshot_bytes=random.choice((500, 4_000, 8 << 20))
        ),
        reader=replace(settings.reader, idle_ms_max=random.choice((None, 700, 3_000))),
        log_file_bytes=random.choice((8 * KIB, 32 * KIB, 256 * KIB)),
        maintenance_ms=random.choice((200, 1_000)),
        collect_ms=random.choice((300, 2_000)),
        sealed_logs_kept=random.choice((0, 1)),
    )
    habits = replace(
        plan.habits,
        pause_ms=random.choice((20, 100, 400)),
        burst_max=random.choice((1, 4, 8)),
        session_appends_max=random.choice((30, 200, 10_000)),
    )
    return replace(
        plan,
        seed=f"{seed} streams",
        settings=settings,
        habits=habits,
        readers=("app-east", "app-north", "app-west")[: random.randint(1, 3)],
        run=StreamsRun,
    )


class StreamApplications(Applications):
    """Applications that append in all ways and run the other stream operations."""

    producers: IdempotentProducers
    stream_workload: StreamWorkload

    async def run(self, host: SimHost) -> None:
        """Writes whenever ``active`` says so, and stream_workload."""
        async with self.cluster.client(host) as client:
            tasks = Tasks()
            tasks.spawn(self.stream_workload.run(host, client), "stream workload")
            await self._write(host, client)

    async def run_and_tail(self, host: SimHost) -> None:
        """Do the same as ``run``, and read the stream from its start."""
        async with self.cluster.client(host) as client:
            tasks = Tasks()
            tasks.spawn(self.stream_workload.run(host, client), "stream workload")
            tasks.spawn(self._tail(host, client), "tail")
            await self._write(host, client)

    # --- writing --------------------------------------------------------------------------------

    def _burst(
        self, writer: StreamWriter, session: int, number: int, random: Random, tasks: Tasks
    ) -> int:
        kind = random.choice(("plain", "set", "numbered", "numbered", "txids"))
        if kind == "numbered":
            sent = self.producers.send(writer, session, random, self.habits.padding_bytes_max)
            if sent is not None:
                tasks.spawn(sent[1].await_outcome(sent[0]), "record outcomes")
                self.called += 1
                return 0
        if kind == "set":
            return self._set(writer, session, number, random, tasks)
        if kind == "txids":
            return self._txids(writer, session, number, random, tasks)
        return super()._burst(writer, session, number, random, tasks)

    def _called(self, session: int, number: int, random: Random) -> list[RecordedAppend]:
        appends = []
        for index in range(random.randint(1, self.habits.burst_max)):
            padding = b"." * random.randrange(self.habits.padding_bytes_max)
            appends.append(self.history.begin_append(session, number + index, padding))
        self.called += len(appends)
        return appends

    def _set(
        self, writer: StreamWriter, session: int, number: int, random: Random, tasks: Tasks
    ) -> int:
        appends = self._called(session, number, random)
        for append in appends:
            append.group = session * 1_000_000 + number + 1
        encoded = encode_record_set(
            [append.payload for append in appends], first_txid=TXID_FIRST, last_txid=TXID_FIRST
        )
        try:
            bulk = writer.append_set(encoded)
        except RhumblineError as error:
            self._fail(appends, error)
            raise
        tasks.spawn(self._record_bulk_outcome(bulk, appends), "record outcomes")
        return len(appends)

    def _txids(
        self, writer: StreamWriter, session: int, number: int, random: Random, tasks: Tasks
    ) -> int:
        def call(append: RecordedAppend) -> Ticket:
            txid = max(TXID_FIRST, writer.last_txid + random.choice((0, 0, 1, 7, 900)))
            return writer.append(append.payload, txid)

        appends = self._called(session, number, random)
        self._append_each(appends, call, tasks)
        return len(appends)

    def _opened(self, writer: StreamWriter, session: int) -> None:
        self.producers.opened(writer, session)

    async def _before_close(self, writer: StreamWriter) -> None:
        """Send all unresolved record sets again, so that each has an outcome."""
        await self.producers.resend_unresolved(writer, self.history.session_count)

    # --- reading --------------------------------------------------------------------------------

    async def _tail(self, host: SimHost, client: SimClient) -> None:
        """Read from the start; after an error reopen at the last position or a truncation."""
        position: Dlsn | None = None
        while True:
            reader = None
            read = self.history.begin_read(f"tail {host.name}/{host.starts}", position)
            try:
                start = EARLIEST if position is None else position
                reader = await client.namespace.open_reader(STREAM, start)
                read.ready_ms = self.history.now_ms()
                while True:
                    await self._take_batch(reader, read)
                    position = reader.position
            except TruncatedError as error:
                self.history.fail_read(read, error)
                self._note(host, f"the reader is behind the truncation: {error}")
                assert isinstance(error.first_active, Dlsn)
                position = error.first_active
            except StreamIdleError:
                self._is_idle(read, reader)
            except RhumblineError as error:
                self.history.fail_read(read, error)
                self._note(host, f"the reader waits at {position}: {type(error).__name__}: {error}")
                await asyncio.sleep(1.0)
            finally:
                if reader is not None:
                    await reader.aclose()

    def _is_idle(self, read: RecordedRead, reader: StreamReader | None) -> None:
        """Record that a quorum reported nothing more within the last ``idle_ms_max``."""
        idle_ms = self.cluster.settings.reader.idle_ms_max
        assert idle_ms is not None
        assert reader is not None
        asked_ms = self.history.now_ms() - idle_ms
        # The position is behind a delivered record; others may follow in the same entry.
        end = Dlsn(reader.position.lssn, reader.position.entry_id + 1, 0)
        self.history.end_queries.append(EndQuery(f"idle {read.reader}", asked_ms, end))

    async def _take_batch(
        self, reader: StreamReader, read: RecordedRead, *, until: Dlsn | None = None
    ) -> bool:
        before = len(read.records)
        if not await take(reader, self.history, read, until=until):
            return False
        self.stream_workload.known += [
            (delivered.dlsn, delivered.txid) for delivered in read.records[before:]
        ]
        return True

    async def read_everything(self, host: SimHost, until: Dlsn) -> None:
        """Read the stream from its start to ``until`` as a complete read.

        A read that retention overtakes begins again at the new start.
        """
        async with self.cluster.client(host) as client:
            while not await self._read_once(host, client, until):
                pass

    async def _read_once(self, host: SimHost, client: SimClient, until: Dlsn) -> bool:
        """Return False if what was read was truncated meanwhile."""
        read = self.history.begin_read(f"final {host.name}", None)
        reader = await client.namespace.open_reader(STREAM, EARLIEST)
        read.ready_ms = self.history.now_ms()
        try:
            while True:
                try:
                    if not await self._take_batch(reader, read, until=until):
                        break
                except (StreamIdleError, ReaderStalledError):
                    continue  # a short idle limit is configured; V5 has its own limit
            read.is_complete = True
        except TruncatedError as error:
            self.history.fail_read(read, error)
            return False
        except RhumblineError as error:
            self.history.fail_read(read, error)
            raise
        finally:
            await reader.aclose()
        return True


class StreamsRun(SeedRun):
    """A run of ``streams``, with its applications and additional checks at the end."""

    workload = StreamWorkload
    applications = StreamApplications
    producer_count = PRODUCERS
    repeat_share = 0.0
    """See ``IdempotentProducers``."""

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        super().__init__(world, plan)
        numbers = count(1)
        self.history = History(self.history.now_ms, numbers)
        apps = self.apps = self.applications(self.cluster, self.history, plan.habits)
        apps.producers = IdempotentProducers(
            self.cluster, self.history, self.producer_count, self.repeat_share
        )
        apps.stream_workload = self.stream_workload = self.workload(
            self.cluster, self.history, numbers
        )
        self.producers = apps.producers
        self.late_adds: list[LateAdd] = []

    async def _finish_workload(self, successor: SimHost) -> None:
        await self._run_within_bound(
            "V7", successor, "finishing the short-lived streams", self._finish_short_streams
        )

    async def _finish_short_streams(self, host: SimHost) -> None:
        async with self.cluster.client(host) as client:
            await self.stream_workload.finish_streams(client)

    async def _verify_end_state(self) -> None:
        await super()._verify_end_state()
        await asyncio.sleep(_FORGET_S)
        asking = self.cluster.app_hosts[0]
        await self._run_within_bound(
            "V9", asking, "offering late entries", self._offer_late_entries
        )

    async def _offer_late_entries(self, host: SimHost) -> None:
        versions = self._ledger_versions()
        deleted = [ledger_id for ledger_id, seen in versions.items() if seen[-1].metadata is None]
        for bookie in self.cluster.bookie_hosts:
            found = await send_late_adds(
                (bookie.name, PORT), self.cluster.bookie_ids[bookie.name], deleted
            )
            self.late_adds += found

    def check(self) -> list[Violation]:
        """Return the violations of the main stream and of each short-lived stream."""
        found = judge(self.record())
        for short in self.stream_workload.short_streams.values():
            for violation in judge(self._record_of(short.name)):
                found.append(Violation(violation.id, f"{short.name}: {violation.text}"))
        return found

    def record(self) -> RunRecord:
        """Return the record of the main stream, with the ledgers of all streams."""
        record = super().record()
        for short in self.stream_workload.short_streams.values():
            record.streams[short.name] = self._stream_versions(short.name)
        record.late_adds = self.late_adds
        policy = self.plan.settings.policy
        record.is_truncated_by_calls = (
            policy.retention_ms is None and not policy.truncates_by_subscriptions
        )
        return record

    def _record_of(self, name: str) -> RunRecord:
        stored = self._stream_versions(name)
        whole = super().record()
        own = {
            version.segment.ledger_id
            for versions in stored.segments.values()
            for version in versions
            if version.segment is not None
        }
        return RunRecord(
            history=self.stream_workload.short_streams[name].history,
            ledgers={key: versions for key, versions in whole.ledgers.items() if key in own},
            segments=stored.segments,
            stored=stored,
            regions=whole.regions,
            lost=whole.lost,
            lying_bookies=whole.lying_bookies,
            purge_grace_ms=whole.purge_grace_ms,
            stale_reads_ms=whole.stale_reads_ms,
        )

    def _states(self) -> dict[str, int]:
        seen = super()._states()
        counts = dict(self.stream_workload.counts)
        counts["retried sets"] = self.producers.retried
        counts["late entries offered"] = len(self.late_adds)
        counts["idle"] = sum(query.caller.startswith("idle") for query in self.history.end_queries)
        counts["truncated reads"] = sum(
            read.failure == "TruncatedError" for read in self.history.reads
        )
        for name, number in sorted(counts.items()):
            seen[name] = seen.get(name, 0) + number
        return seen
