"""The application programs of a run: one host writes at a time (or believes it does), others tail.

Everything that they see is recorded in a ``History``. When a process is killed, the outcomes that
it was waiting for stay unknown.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ....core.log.read.stream_reader import StreamReader
from ....core.log.write.batch import Append as Ticket
from ....core.log.write.batch import AppendMany
from ....core.log.write.stream_writer import StreamWriter
from ....core.protocol.dlsn import Dlsn
from ....core.protocol.errors import (
    OwnershipLostError,
    RhumblineError,
    TooManyRequestsError,
    UnavailableError,
    UnknownOutcomeError,
)
from ....core.protocol.start import EARLIEST
from ....core.runtime.tasks import Tasks
from ...checker.history import AppendOutcome, History, RecordedAppend, RecordedRead
from ..cluster import STREAM, SimClient, SimCluster, until
from ..world.process import SimProcess
from ..world.sim_world import SimHost

NO_WRITER = "none"
"""The value of ``Applications.active_writer`` with which no host begins to write."""

_RETRY_S = 0.5
_CLOSE_S = 120  # exceeds the time that any append may take after the faults
_BEAT_ACK, _BEAT_READ = 40, 41


@dataclass(frozen=True, slots=True)
class WriterHabits:
    """The behaviour of a writer: bursts, pauses and sessions."""

    pause_ms: int = 20
    """Maximum pause between two bursts."""
    burst_max: int = 6
    padding_bytes_max: int = 60
    session_appends_max: int = 10_000
    """Number of appends after which the writer closes its session and opens another."""
    bulk_share: float = 0.3
    """Share of the bursts that are one ``append_many``."""
    awaits_each_burst: bool = False
    """True if a writer waits for the outcomes of a burst before it continues."""
    stops_when_replaced: bool = False
    """True if a writer stops when another host becomes active; else only when it is fenced."""


class Applications:
    """The programs of the application hosts. ``active_writer`` is the host that should write."""

    def __init__(self, cluster: SimCluster, history: History, habits: WriterHabits) -> None:
        self.cluster = cluster
        self.history = history
        self.habits = habits
        self.active_writer: str | None = None
        """The host that should write; others continue until they notice that they are fenced."""
        self.acked = 0
        self.called = 0
        self._writers: dict[int, SimProcess] = {}
        self.appends_max = 1 << 60
        """Limit on the number of appends of all hosts."""

    def start(self, host: SimHost, *, reads: bool) -> None:
        """Start the program on ``host``; with ``reads`` it also tails the stream."""
        host.start(self.run_and_tail if reads else self.run)

    async def run(self, host: SimHost) -> None:
        """Write while this host is the active writer."""
        async with self.cluster.client(host) as client:
            await self._write(host, client)

    async def run_and_tail(self, host: SimHost) -> None:
        """Write as ``run`` does, and read the stream from its start."""
        async with self.cluster.client(host) as client:
            tasks = Tasks()
            tasks.spawn(self._tail(host, client), "tail")
            await self._write(host, client)

    # --- writing --------------------------------------------------------------------------------

    async def _write(self, host: SimHost, client: SimClient) -> None:
        random = self.cluster.world.random_of(f"writer {host.name} {host.starts}")
        while True:
            if self.active_writer != host.name or self.called >= self.appends_max:
                await asyncio.sleep(0.1)
                continue
            try:
                writer = await client.namespace.open_writer(STREAM)
            except RhumblineError as error:
                self._note(host, f"cannot open a writer: {describe_error(error)}")
                await asyncio.sleep(_RETRY_S * (1 + random.random()))
                continue
            await self._session(host, writer, random)

    async def _session(self, host: SimHost, writer: StreamWriter, random: Random) -> None:
        session = self.history.new_session()
        self._note(host, f"writes as session {session}")
        self._writers[session] = process_of(host)
        self._opened(writer, session)
        tasks = Tasks()
        failure: RhumblineError | None = None
        number = 0
        try:
            while self._keeps_writing(host):
                if number >= self.habits.session_appends_max:
                    break
                number += self._burst_unless_idle(writer, session, number, random, tasks)
                if self.habits.awaits_each_burst:
                    await until(lambda: not len(tasks), every_s=0.002)
                await asyncio.sleep(random.random() * self.habits.pause_ms / 1000)
                if len(tasks) > 50:
                    await writer.room()
                    await asyncio.sleep(0.05)
        except TooManyRequestsError:
            await asyncio.sleep(0.2)
        except RhumblineError as error:
            failure = error
        if failure is None:
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await writer.close()
            except (RhumblineError, TimeoutError) as error:
                failure = error if isinstance(error, RhumblineError) else None
        self._note(
            host, f"session {session} ended: {describe_error(failure) if failure else 'closed'}"
        )
        await writer.abort()
        if isinstance(failure, OwnershipLostError) and self.active_writer == host.name:
            await asyncio.sleep(_RETRY_S * random.random())

    async def write_final_records(self, host: SimHost, count: int) -> None:
        """Take the stream over, append ``count`` records, and complete the last segment.

        Errors are retried until everything is acknowledged.
        """
        async with self.cluster.client(host) as client:
            while True:
                try:
                    writer = await client.namespace.open_writer(STREAM)
                    session = self.history.new_session()
                    self._writers[session] = process_of(host)
                    self._opened(writer, session)
                    for number in range(count):
                        append = self.history.begin_append(session, number, b"the end")
                        await self._record_outcomes([writer.append(append.payload)], [append])
                        if append.outcome is not AppendOutcome.OK:
                            break
                    await self._before_close(writer)
                    await writer.close()
                    if append.outcome is AppendOutcome.OK:
                        return
                except RhumblineError as error:
                    self._note(host, f"cannot write the end: {describe_error(error)}")
                await asyncio.sleep(_RETRY_S)

    def _opened(self, writer: StreamWriter, session: int) -> None:
        """Record what a subclass needs of a writer that was just opened."""

    async def _before_close(self, writer: StreamWriter) -> None:
        """Do what a subclass needs with the final writer before it is closed."""

    def pending(self) -> list[RecordedAppend]:
        """Return the appends without an outcome whose process is still running."""
        return [
            append
            for append in self.history.appends.values()
            if append.ended_ms is None
            and append.session in self._writers
            and not self._writers[append.session].is_dead
        ]

    def _keeps_writing(self, host: SimHost) -> bool:
        should_write = self.active_writer == host.name or not (
            self.active_writer is None or self.habits.stops_when_replaced
        )
        return should_write and self.called < self.appends_max

    def _burst_unless_idle(
        self, writer: StreamWriter, session: int, number: int, random: Random, tasks: Tasks
    ) -> int:
        if self.cluster.writers_are_idle:
            return 0
        return self._burst(writer, session, number, random, tasks)

    def _burst(
        self, writer: StreamWriter, session: int, number: int, random: Random, tasks: Tasks
    ) -> int:
        """Start a burst of appends and return their number. Raises what ``append`` raises."""
        count = random.randint(1, self.habits.burst_max)
        appends: list[RecordedAppend] = []
        for index in range(count):
            padding = b"." * random.randrange(self.habits.padding_bytes_max)
            appends.append(self.history.begin_append(session, number + index, padding))
        self.called += count
        if count > 1 and random.random() < self.habits.bulk_share:
            try:
                bulk = writer.append_many([append.payload for append in appends])
            except RhumblineError as error:
                self._fail(appends, error)
                raise
            tasks.spawn(self._record_bulk_outcome(bulk, appends), "record outcomes")
            return count
        self._append_each(appends, lambda append: writer.append(append.payload), tasks)
        return count

    def _append_each(
        self, appends: list[RecordedAppend], call: Callable[[RecordedAppend], Ticket], tasks: Tasks
    ) -> None:
        """Append one by one, and record the outcomes in a task. Raises what a call raises."""
        tickets: list[Ticket] = []
        try:
            for append in appends:
                tickets.append(call(append))
        except RhumblineError as error:
            self._fail(appends[len(tickets) :], error)
            raise
        finally:
            if tickets:
                tasks.spawn(self._record_outcomes(tickets, appends), "record outcomes")

    def _fail(self, appends: list[RecordedAppend], error: RhumblineError) -> None:
        for append in appends:
            self.history.finish_append(append, AppendOutcome.FAILED, reason=describe_error(error))

    async def _record_outcomes(self, tickets: list[Ticket], appends: list[RecordedAppend]) -> None:
        """Record the outcome of each append when it is known."""
        for ticket, append in zip(tickets, appends, strict=False):
            try:
                result = await ticket
            except RhumblineError as error:
                self._failed(append, error)
            else:
                self._acked(append, result.dlsn, result.regions)

    async def _record_bulk_outcome(self, bulk: AppendMany, appends: list[RecordedAppend]) -> None:
        try:
            result = await bulk
        except RhumblineError as error:
            for append in appends:  # some of them may have been acknowledged
                self.history.finish_append(
                    append, AppendOutcome.UNKNOWN, reason=describe_error(error)
                )
            return
        for append, dlsn in zip(appends, bulk.dlsns(), strict=True):
            self._acked(append, dlsn, result.regions, has_own_outcome=False)

    def _acked(
        self,
        append: RecordedAppend,
        dlsn: Dlsn,
        regions: tuple[str, ...],
        *,
        has_own_outcome: bool = True,
    ) -> None:
        holders = self.cluster.holders(append.token)
        self.history.finish_append(
            append,
            AppendOutcome.OK,
            dlsn=dlsn,
            regions=regions,
            holders=holders,
            has_own_outcome=has_own_outcome,
        )
        self.acked += 1
        trace = self.cluster.world.trace
        trace.beat(_BEAT_ACK, append.session * 1_000_000 + append.number, hash(dlsn))
        if trace.is_detailed:
            trace.detail(f"session {append.session}", f"{append} held by {', '.join(holders)}")

    def _failed(self, append: RecordedAppend, error: RhumblineError) -> None:
        is_unknown = isinstance(error, UnknownOutcomeError)
        outcome = AppendOutcome.UNKNOWN if is_unknown else AppendOutcome.FAILED
        self.history.finish_append(append, outcome, reason=describe_error(error))
        self.cluster.world.trace.detail(
            f"session {append.session}", f"{append}: {describe_error(error)}"
        )

    # --- reading --------------------------------------------------------------------------------

    async def _tail(self, host: SimHost, client: SimClient) -> None:
        """Read from the start; after a lasting error, reopen at the last position."""
        position: Dlsn | None = None
        while True:
            reader = None
            try:
                start = EARLIEST if position is None else position
                reader = await client.namespace.open_reader(STREAM, start)
                read = self.history.begin_read(f"tail {host.name}/{host.starts}", position)
                while True:
                    await self._take_batch(reader, read)
                    position = reader.position
            except UnavailableError as error:
                self._note(host, f"the reader waits at {position}: {describe_error(error)}")
                await asyncio.sleep(1.0)
            finally:
                if reader is not None:
                    await reader.aclose()

    async def _take_batch(
        self, reader: StreamReader, read: RecordedRead, *, until: Dlsn | None = None
    ) -> bool:
        batch = await reader.next_batch(until=until)
        if batch is None:
            return False
        for record in batch.records():
            self.history.add_record(read, record.dlsn, record.payload)
        self.cluster.world.trace.beat(_BEAT_READ, len(batch), hash(batch.last_dlsn))
        return True

    async def read_everything(self, host: SimHost, until: Dlsn) -> None:
        """Read the stream from its start to ``until`` as a complete read."""
        async with self.cluster.client(host) as client:
            read = self.history.begin_read(f"final {host.name}", None)
            reader = await client.namespace.open_reader(STREAM, EARLIEST)
            try:
                while await self._take_batch(reader, read, until=until):
                    pass
                read.is_complete = True
            finally:
                await reader.aclose()

    def _note(self, host: SimHost, message: str) -> None:
        self.cluster.world.trace.note(host.name, message)


def process_of(host: SimHost) -> SimProcess:
    """Return the process that runs on ``host``; call it from that process only."""
    assert host.process is not None, "only the host's own program calls this"
    return host.process


def describe_error(error: BaseException) -> str:
    """Return an error's class and message for the trace."""
    return f"{type(error).__name__}: {error}"
