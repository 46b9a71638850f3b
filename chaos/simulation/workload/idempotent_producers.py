"""Producers that number their records and resend those whose outcome is unknown.

A resend goes through whichever writer session is the newest by then (rules STR-16 and STR-17).
"""

from dataclasses import dataclass
from random import Random

from ....core.log.write.batch import AppendMany
from ....core.log.write.stream_writer import StreamWriter
from ....core.protocol.errors import DuplicateRecordError, RhumblineError, SequenceGapError
from ...checker.history import (
    AppendOutcome,
    History,
    KnownNumber,
    RecordedAppend,
    SequenceGap,
)
from ..cluster import SimCluster

SET_MAX = 5
"""Maximum number of records in one numbered set."""


@dataclass(slots=True)
class _Producer:
    """The state of one producer. It outlives every process, as clients of proxies do."""

    identity: bytes
    session: int
    """Its session number in the history."""
    next: int = 0
    unresolved: tuple[RecordedAppend, ...] = ()
    """The last set, until the producer is told that it is in the stream; else empty."""
    calls: int = 0
    """Number of times that set was sent."""
    session_in_charge: int = 0
    """The writer session with a call in progress for this producer; 0: none."""


class IdempotentProducers:
    """All idempotent producers of a run. Only the newest writer session sends their records."""

    def __init__(
        self, cluster: SimCluster, history: History, count: int, repeat_share: float = 0.0
    ) -> None:
        """``repeat_share``: the share of calls that repeat a set which the same writer has not
        acknowledged yet, if its producer is chosen."""
        self.retried = 0
        """Number of sets that were acknowledged by their second call or a later one."""
        self._cluster = cluster
        self._history = history
        self._repeat_share = repeat_share
        self._newest = 0
        self._all = [_Producer(bytes([n + 1] * 16), history.new_session()) for n in range(count)]

    def opened(self, writer: StreamWriter, session: int) -> None:
        """Record which numbers a writer knows that was just opened."""
        now_ms = self._history.now_ms()
        for producer in self._all:
            last = writer.last_sequence(producer.identity)
            known = KnownNumber(session, now_ms, producer.identity, last)
            self._history.known_numbers.append(known)

    def send(
        self, writer: StreamWriter, session: int, random: Random, padding_max: int
    ) -> "tuple[AppendMany, ProducerCall] | None":
        """Send the next set of a random producer, or resend its unresolved set.

        Returns None if that producer cannot send now, else the arguments for ``await_outcome``.
        Raises what the append raises, except duplicates and gaps, which are recorded.
        """
        self._newest = max(self._newest, session)
        producer = random.choice(self._all)
        if session < self._newest:
            return None
        if producer.session_in_charge == session and not self._repeats(random):
            return None
        if not producer.unresolved:
            self._next_set(producer, random, padding_max)
        return self._call(writer, session, producer)

    def _repeats(self, random: Random) -> bool:
        return self._repeat_share > 0 and random.random() < self._repeat_share

    def producers_in_doubt(self) -> list["_Producer"]:
        """Return the producers whose last set is unresolved."""
        return [producer for producer in self._all if producer.unresolved]

    async def resend_unresolved(self, writer: StreamWriter, session: int) -> None:
        """Resend every unresolved set and wait for its outcome. Raises what appends raise."""
        self._newest = max(self._newest, session)
        for producer in self._all:
            if producer.unresolved:
                sent = self._call(writer, session, producer)
                if sent is not None:
                    await sent[1].await_outcome(sent[0])

    def _next_set(self, producer: _Producer, random: Random, padding_max: int) -> None:
        appends = []
        for _ in range(random.randint(1, SET_MAX)):
            padding = b"." * random.randrange(padding_max)
            append = self._history.begin_append(producer.session, producer.next, padding)
            append.producer = producer.identity, producer.next
            producer.next += 1
            appends.append(append)
        number = producer.session * 1_000_000 + appends[0].number + 1
        for append in appends:
            append.group = number
        producer.unresolved, producer.calls = tuple(appends), 0

    def _call(
        self, writer: StreamWriter, session: int, producer: _Producer
    ) -> "tuple[AppendMany, ProducerCall] | None":
        appends = producer.unresolved
        producer.session_in_charge = session
        producer.calls += 1
        payloads = [append.payload for append in appends]
        try:
            many = writer.append_numbered(producer.identity, appends[0].number, payloads)
        except DuplicateRecordError:
            for append in appends:
                append.was_refused_as_duplicate = True
            self._resolve(producer, appends)
            return None
        except SequenceGapError:
            self._history.sequence_gaps.append(
                SequenceGap(session, self._history.now_ms(), appends[0])
            )
            producer.session_in_charge = 0
            return None
        except RhumblineError:
            producer.session_in_charge = 0
            raise
        return many, ProducerCall(self, producer, appends, session)

    def acknowledged(
        self, producer: _Producer, appends: tuple[RecordedAppend, ...], many: AppendMany
    ) -> None:
        """Record that a call was acknowledged."""
        for append, dlsn in zip(appends, many.dlsns(), strict=True):
            append.reported_positions.append(dlsn)
            if append.ended_ms is None:
                holders = self._cluster.holders(append.token)
                self._history.finish_append(
                    append, AppendOutcome.OK, dlsn=dlsn, holders=holders, has_own_outcome=False
                )
        if producer.unresolved is appends:
            self.retried += producer.calls > 1
            self._resolve(producer, appends)

    def _resolve(self, producer: _Producer, appends: tuple[RecordedAppend, ...]) -> None:
        if producer.unresolved is appends:
            producer.unresolved, producer.session_in_charge = (), 0


class ProducerCall:
    """One call of one producer whose outcome is not known yet."""

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

    async def await_outcome(self, many: AppendMany) -> None:
        """Wait for the outcome of the call and record it."""
        try:
            await many
        except RhumblineError:
            if self._producer.session_in_charge == self._session:
                self._producer.session_in_charge = 0  # allows a resend
        else:
            self._producers.acknowledged(self._producer, self._appends, many)
