"""What applications do in a run: one writes at a time (or believes so), others read along.

All that they see goes into a ``History``. A program survives nothing: when its process is killed,
what it had not heard of stays unknown.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ....core.log.read.positioning import EARLIEST
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
from ....core.runtime.tasks import Tasks
from ...checker.history import AppendOutcome, History, RecordedAppend, RecordedRead
from ..cluster import STREAM, SimClient, SimCluster, until
from ..world.process import SimProcess
from ..world.sim_world import SimHost

_RETRY_S = 0.5
_CLOSE_S = 120  # longer than any append may wait after the faults
_BEAT_ACK, _BEAT_READ = 40, 41


@dataclass(frozen=True, slots=True)
class WriterHabits:
    """How a writer appends."""

    pause_ms: int = 20
    """Between bursts, at most."""
    burst_max: int = 6
    padding_bytes_max: int = 60
    session_appends_max: int = 10_000
    """After so many the writer closes its session and opens another."""
    bulk_share: float = 0.3
    """Of bursts that are one append_many."""
    is_patient: bool = False
    """Whether a writer waits for the outcome of each burst before it does anything else."""
    is_polite: bool = False
    """Whether a writer stops when another is told to write, rather than when it finds out."""


class Applications:
    """The programs of the client hosts, and who of them is told to write."""

    def __init__(self, cluster: SimCluster, history: History, habits: WriterHabits) -> None:
        self.cluster = cluster
        self.history = history
        self.habits = habits
        self.active: str | None = None
        """The host that is told to write; others write on until they find out that they lost."""
        self.acked = 0
        self.called = 0
        self._writers: dict[int, SimProcess] = {}
        self.wanted = 1 << 60
        """No more appends than this."""

    def start(self, host: SimHost, *, reads: bool) -> None:
        """Starts the program on ``host``: it writes while it is told to; perhaps it tails, too."""
        host.start(self.run_and_tail if reads else self.run)

    async def run(self, host: SimHost) -> None:
        """Writes whenever ``active`` says so."""
        async with self.cluster.client(host) as client:
            await self._write(host, client)

    async def run_and_tail(self, host: SimHost) -> None:
        """Writes as ``run``, and reads the stream from its start on."""
        async with self.cluster.client(host) as client:
            tasks = Tasks()
            tasks.spawn(self._tail(host, client), "tail")
            await self._write(host, client)

    # --- writing --------------------------------------------------------------------------------

    async def _write(self, host: SimHost, client: SimClient) -> None:
        random = self.cluster.world.random_of(f"writer {host.name} {host.starts}")
        while True:
            if self.active != host.name or self.called >= self.wanted:
                await asyncio.sleep(0.1)
                continue
            try:
                writer = await client.namespace.open_writer(STREAM)
            except RhumblineError as error:
                self._note(host, f"cannot open a writer: {_words(error)}")
                await asyncio.sleep(_RETRY_S * (1 + random.random()))
                continue
            await self._session(host, writer, random)

    async def _session(self, host: SimHost, writer: StreamWriter, random: Random) -> None:
        session = self.history.new_session()
        self._note(host, f"writes as session {session}")
        self._writers[session] = _process_of(host)
        tasks = Tasks()
        failure: RhumblineError | None = None
        number = 0
        try:
            while self._goes_on(host):
                if number >= self.habits.session_appends_max:
                    break
                number += self._burst(writer, session, number, random, tasks)
                if self.habits.is_patient:
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
        self._note(host, f"session {session} is over: {_words(failure) if failure else 'closed'}")
        await writer.abort()
        if isinstance(failure, OwnershipLostError) and self.active == host.name:
            await asyncio.sleep(_RETRY_S * random.random())

    async def write_the_end(self, host: SimHost, count: int) -> None:
        """Takes the stream over, has ``count`` records acknowledged and the last segment completed.

        Goes on until it has: errors that may pass are tried again.
        """
        async with self.cluster.client(host) as client:
            while True:
                try:
                    writer = await client.namespace.open_writer(STREAM)
                    session = self.history.new_session()
                    self._writers[session] = _process_of(host)
                    for number in range(count):
                        append = self.history.call(session, number, b"the end")
                        await self._hear([writer.append(append.payload)], [append])
                        if append.outcome is not AppendOutcome.OK:
                            break
                    await self._before_the_end(writer)
                    await writer.close()
                    if append.outcome is AppendOutcome.OK:
                        return
                except RhumblineError as error:
                    self._note(host, f"cannot write the end: {_words(error)}")
                await asyncio.sleep(_RETRY_S)

    async def _before_the_end(self, writer: StreamWriter) -> None:
        """What else the last writer does."""

    def pending(self) -> list[RecordedAppend]:
        """Appends whose callers live and have not heard of their outcome yet."""
        return [
            append
            for append in self.history.appends.values()
            if append.ended_ms is None
            and append.session in self._writers
            and not self._writers[append.session].is_dead
        ]

    def _goes_on(self, host: SimHost) -> bool:
        is_told = self.active == host.name or not (self.active is None or self.habits.is_polite)
        return is_told and self.called < self.wanted

    def _burst(
        self, writer: StreamWriter, session: int, number: int, random: Random, tasks: Tasks
    ) -> int:
        """Calls some appends at once and returns how many. Raises what ``append`` raises."""
        count = random.randint(1, self.habits.burst_max)
        appends: list[RecordedAppend] = []
        for index in range(count):
            padding = b"." * random.randrange(self.habits.padding_bytes_max)
            appends.append(self.history.call(session, number + index, padding))
        self.called += count
        if count > 1 and random.random() < self.habits.bulk_share:
            try:
                bulk = writer.append_many([append.payload for append in appends])
            except RhumblineError as error:
                self._fail(appends, error)
                raise
            tasks.spawn(self._hear_bulk(bulk, appends), "hear")
            return count
        self._call_each(appends, lambda append: writer.append(append.payload), tasks)
        return count

    def _call_each(
        self, appends: list[RecordedAppend], call: Callable[[RecordedAppend], Ticket], tasks: Tasks
    ) -> None:
        """Calls them one by one, and has their outcomes heard. Raises what a call raises."""
        tickets: list[Ticket] = []
        try:
            for append in appends:
                tickets.append(call(append))
        except RhumblineError as error:
            self._fail(appends[len(tickets) :], error)
            raise
        finally:
            if tickets:
                tasks.spawn(self._hear(tickets, appends), "hear")

    def _fail(self, appends: list[RecordedAppend], error: RhumblineError) -> None:
        for append in appends:
            self.history.end(append, AppendOutcome.FAILED, reason=_words(error))

    async def _hear(self, tickets: list[Ticket], appends: list[RecordedAppend]) -> None:
        """Notes how each of some appends ended, when it is heard of."""
        for ticket, append in zip(tickets, appends, strict=False):
            try:
                result = await ticket
            except RhumblineError as error:
                self._failed(append, error)
            else:
                self._acked(append, result.dlsn, result.regions)

    async def _hear_bulk(self, bulk: AppendMany, appends: list[RecordedAppend]) -> None:
        try:
            result = await bulk
        except RhumblineError as error:
            for append in appends:  # some of them may have been acknowledged
                self.history.end(append, AppendOutcome.UNKNOWN, reason=_words(error))
            return
        for append, dlsn in zip(appends, bulk.dlsns(), strict=True):
            self._acked(append, dlsn, result.regions, is_alone=False)

    def _acked(
        self, append: RecordedAppend, dlsn: Dlsn, regions: tuple[str, ...], *, is_alone: bool = True
    ) -> None:
        holders = self.cluster.holders(append.token)
        self.history.end(
            append, AppendOutcome.OK, dlsn=dlsn, regions=regions, holders=holders, is_alone=is_alone
        )
        self.acked += 1
        trace = self.cluster.world.trace
        trace.beat(_BEAT_ACK, append.session * 1_000_000 + append.number, hash(dlsn))
        if trace.is_detailed:
            trace.detail(f"session {append.session}", f"{append} held by {', '.join(holders)}")

    def _failed(self, append: RecordedAppend, error: RhumblineError) -> None:
        is_unknown = isinstance(error, UnknownOutcomeError)
        outcome = AppendOutcome.UNKNOWN if is_unknown else AppendOutcome.FAILED
        self.history.end(append, outcome, reason=_words(error))
        self.cluster.world.trace.detail(f"session {append.session}", f"{append}: {_words(error)}")

    # --- reading --------------------------------------------------------------------------------

    async def _tail(self, host: SimHost, client: SimClient) -> None:
        """Reads from the start on; after an error that lasts, opens again where it was."""
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
                self._note(host, f"the reader waits at {position}: {_words(error)}")
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
            self.history.deliver(read, record.dlsn, record.payload)
        self.cluster.world.trace.beat(_BEAT_READ, len(batch), hash(batch.last_dlsn))
        return True

    async def read_everything(self, host: SimHost, until: Dlsn) -> None:
        """Reads the stream from its start to ``until``, as a complete run."""
        async with self.cluster.client(host) as client:
            reader = await client.namespace.open_reader(STREAM, EARLIEST)
            read = self.history.begin_read(f"final {host.name}", None)
            try:
                while await self._take_batch(reader, read, until=until):
                    pass
                read.is_complete = True
            finally:
                await reader.aclose()

    def _note(self, host: SimHost, what: str) -> None:
        self.cluster.world.trace.note(host.name, what)


def _process_of(host: SimHost) -> SimProcess:
    assert host.process is not None, "its program asks"
    return host.process


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
