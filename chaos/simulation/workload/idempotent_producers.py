"""Producers that number their records, and send what is in doubt again: whoever writes by then."""

from dataclasses import dataclass
from random import Random

from ....core.log.write.batch import AppendMany
from ....core.log.write.stream_writer import StreamWriter
from ....core.protocol.errors import DuplicateRecordError, RhumblineError, SequenceGapError
from ...checker.history import AppendOutcome, Gap, History, RecordedAppend
from ..cluster import SimCluster

SET_MAX = 5
"""Records in one numbered set."""


@dataclass(slots=True)
class _Producer:
    """One producer. It lives outside of every process, as clients of proxies do."""

    identity: bytes
    session: int
    """Of its records in the history."""
    next: int = 0
    doubt: tuple[RecordedAppend, ...] = ()
    """Its last set, while it has not heard that it is in the stream."""
    calls: int = 0
    """How often that was sent."""
    asked: int = 0
    """The writer session that has it in hand; 0: none."""


class IdempotentProducers:
    """All of them; the newest writer session sends for them."""

    def __init__(self, cluster: SimCluster, history: History, count: int) -> None:
        self.retried = 0
        """Sets that were acknowledged at a second call or later."""
        self._cluster = cluster
        self._history = history
        self._newest = 0
        self._all = [_Producer(bytes([n + 1] * 16), history.new_session()) for n in range(count)]

    def send(
        self, writer: StreamWriter, session: int, random: Random, padding_max: int
    ) -> "tuple[AppendMany, Hearing] | None":
        """Sends the next set of one producer, or again the one that is in doubt; None: none can.

        What it returns is to be awaited by ``Hearing.hear``. Raises what the append raises, but for
        what only the producer is told.
        """
        self._newest = max(self._newest, session)
        producer = random.choice(self._all)
        if session < self._newest or producer.asked == session:
            return None
        if not producer.doubt:
            self._next_set(producer, random, padding_max)
        return self._call(writer, session, producer)

    def unsettled(self) -> list["_Producer"]:
        """Those whose last set is in doubt."""
        return [producer for producer in self._all if producer.doubt]

    async def settle(self, writer: StreamWriter, session: int) -> None:
        """Sends all that is in doubt until nothing is. Raises what appends raise."""
        self._newest = max(self._newest, session)
        for producer in self._all:
            if producer.doubt:
                sent = self._call(writer, session, producer)
                if sent is not None:
                    await sent[1].hear(sent[0])

    def _next_set(self, producer: _Producer, random: Random, padding_max: int) -> None:
        appends = []
        for _ in range(random.randint(1, SET_MAX)):
            padding = b"." * random.randrange(padding_max)
            append = self._history.call(producer.session, producer.next, padding)
            append.producer = producer.identity, producer.next
            producer.next += 1
            appends.append(append)
        number = producer.session * 1_000_000 + appends[0].number + 1
        for append in appends:
            append.group = number
        producer.doubt, producer.calls = tuple(appends), 0

    def _call(
        self, writer: StreamWriter, session: int, producer: _Producer
    ) -> "tuple[AppendMany, Hearing] | None":
        appends = producer.doubt
        producer.asked = session
        producer.calls += 1
        payloads = [append.payload for append in appends]
        try:
            many = writer.append_numbered(producer.identity, appends[0].number, payloads)
        except DuplicateRecordError:
            for append in appends:
                append.is_told_there = True
            self._settled(producer, appends)
            return None
        except SequenceGapError:
            self._history.gaps.append(Gap(session, self._history.now_ms(), appends[0]))
            producer.asked = 0
            return None
        except RhumblineError:
            producer.asked = 0
            raise
        return many, Hearing(self, producer, appends, session)

    def heard(
        self, producer: _Producer, appends: tuple[RecordedAppend, ...], many: AppendMany
    ) -> None:
        """A call was acknowledged."""
        for append, dlsn in zip(appends, many.dlsns(), strict=True):
            append.told.append(dlsn)
            if append.ended_ms is None:
                holders = self._cluster.holders(append.token)
                self._history.end(
                    append, AppendOutcome.OK, dlsn=dlsn, holders=holders, is_alone=False
                )
        if producer.doubt is appends:
            self.retried += producer.calls > 1
            self._settled(producer, appends)

    def _settled(self, producer: _Producer, appends: tuple[RecordedAppend, ...]) -> None:
        if producer.doubt is appends:
            producer.doubt, producer.asked = (), 0


class Hearing:
    """One call of one producer, until it is heard of."""

    def __init__(
        self,
        producers: IdempotentProducers,
        producer: _Producer,
        appends: tuple[RecordedAppend, ...],
        session: int,
    ) -> None:
        self._producers = producers
        self._producer = producer
        self._appends = appends
        self._session = session

    async def hear(self, many: AppendMany) -> None:
        """Notes what became of it."""
        try:
            await many
        except RhumblineError:
            if self._producer.asked == self._session:
                self._producer.asked = 0  # it is sent again
        else:
            self._producers.heard(self._producer, self._appends, many)
