"""The history of one stream as its callers saw it: calls, their outcomes and what was read.

Payloads are unique, so a delivered record identifies the append that sent it. If the caller's
process died before an append ended, the outcome of the append is unknown.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import NamedTuple

from ...core.log.metadata.subscriptions import Subscription
from ...core.protocol.dlsn import Dlsn

TOKEN = re.compile(rb"@\d{4}\.\d{6}@")
"""The unique part of a payload; it is also found in the raw bytes of disks and frames."""

TOKEN_BYTES = 13


class AppendOutcome(Enum):
    """The outcome of an append."""

    OK = "ok"
    FAILED = "failed"  # certainly not appended
    UNKNOWN = "unknown"


@dataclass(slots=True)
class RecordedAppend:
    """One append of one writer session or producer. Times are virtual milliseconds."""

    session: int
    number: int
    payload: bytes
    called_ms: float
    outcome: AppendOutcome = AppendOutcome.UNKNOWN
    ended_ms: float | None = None
    has_own_outcome: bool = True
    """False if the caller received a single outcome for several appends."""
    dlsn: Dlsn | None = None
    regions: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    """Ids of the bookies on whose disks it was durable when it was acknowledged."""
    reason: str = ""
    group: int = 0
    """Appends with the same value other than 0 form one record set."""
    producer: tuple[bytes, int] | None = None
    """The producer id and sequence number of a numbered append, which may be sent several times."""
    reported_positions: list[Dlsn] = field(default_factory=list)
    """For a numbered append: the positions that its calls returned."""
    expected: Dlsn | None = None
    """For a conditional append: where the stream has to end."""
    named_end: Dlsn | None = None
    """For a conditional append that was refused: the end that the refusal named."""
    was_refused_as_duplicate: bool = False
    """True if a call was refused because the record is already in the stream."""

    @property
    def token(self) -> bytes:
        """The unique part of the payload."""
        return token_of(self.session, self.number)

    def __str__(self) -> str:
        """Return the form that is used in violations."""
        where = f" at {self.dlsn}" if self.dlsn else ""
        return f"append {self.session}.{self.number}{where} ({self.outcome.value})"


class DeliveredRecord(NamedTuple):
    """A record as a reader received it."""

    at_ms: float
    dlsn: Dlsn
    payload: bytes
    txid: int = 0
    """The transaction id; 0 if it was not recorded."""
    producer: tuple[bytes, int] | None = None


@dataclass(slots=True)
class RecordedRead:
    """One uninterrupted read by one reader; ``is_complete`` if it read to the end of the stream."""

    reader: str
    start: Dlsn | None
    """The start position; None: the earliest."""
    records: list[DeliveredRecord] = field(default_factory=list)
    is_complete: bool = False
    called_ms: float = 0.0
    """When opening the reader was called."""
    ready_ms: float | None = None
    """When the reader had been opened; None if that failed or was not recorded."""
    seeks_txid: int | None = None
    """The transaction id at which it was opened; None: it was opened at ``start``."""
    is_ended: bool = False
    """True if the reader reported that the stream ends after the last record."""
    failed_ms: float | None = None
    failure: str = ""
    """The name of the class of the error that ended the read."""
    stream_id: str = ""
    """The id of the stream that the start position names; "" if it names none."""


class EndQuery(NamedTuple):
    """A query that reported, for a time not before ``called_ms``, that nothing is visible at or
    above ``end``."""

    caller: str
    called_ms: float
    end: Dlsn


class ReportedEnd(NamedTuple):
    """A reader of a stream that has other streams of its name beside it reported the end."""

    reader: str
    stream: str
    """The name of the stream."""
    called_ms: float
    told_ms: float


@dataclass(slots=True)
class StreamEnding:
    """An attempt to end the stream. ``ended_ms``: when it was acknowledged, else None."""

    session: int
    called_ms: float
    ended_ms: float | None = None


class Truncation(NamedTuple):
    """A truncation to ``position`` that was acknowledged at ``at_ms``."""

    at_ms: float
    position: Dlsn
    called_ms: float | None = None
    """When it was called; None: no untruncation was in progress meanwhile."""


@dataclass(slots=True)
class Untruncation:
    """A call that takes a truncation back."""

    called_ms: float
    position: Dlsn | None
    """The wanted start; None: as far back as possible."""
    ended_ms: float | None = None
    """When the call returned or was refused; None: it may still take effect at any later time."""
    start: Dlsn | None = None
    """The start that it returned; None if it failed."""


@dataclass(slots=True)
class AdminCall:
    """A call that creates, deletes or truncates a stream by its name."""

    kind: str
    """``create``, ``delete`` or ``truncate``."""
    called_ms: float
    identity: str | None = None
    """The identity of the intended stream, if the call names it."""
    position: Dlsn | None = None
    ended_ms: float | None = None
    """When the call returned or raised; None: its caller died before."""
    is_unknown: bool = True
    """True if the outcome is unknown; a creation may then take effect at any later time."""


class SequenceGap(NamedTuple):
    """A session's refusal of a numbered append because earlier numbers are missing."""

    session: int
    at_ms: float
    append: RecordedAppend


class KnownNumber(NamedTuple):
    """The last number of a producer that a writer session knew when it was opened."""

    session: int
    at_ms: float
    producer: bytes
    last: int | None


class LateAdd(NamedTuple):
    """An add to a deleted ledger, sent to a bookie that had reported not to have the ledger."""

    bookie: str
    ledger_id: int
    is_confirmed: bool
    is_readable: bool
    """True if the bookie returned the entry afterwards."""


class RecordDelivery(NamedTuple):
    """A delivery to an application that acknowledges single records."""

    at_ms: float
    position: Dlsn
    deliveries: int
    """The number of deliveries that the consumer reported, this one included."""


@dataclass(slots=True)
class SubscriptionUse:
    """The use of one subscription by its consumers. Times are virtual milliseconds."""

    deliveries_max: int
    deliveries: list[RecordDelivery] = field(default_factory=list)
    acknowledged: dict[Dlsn, float] = field(default_factory=dict)
    """When the application first acknowledged the record at a position."""
    dead: dict[Dlsn, float] = field(default_factory=dict)
    """When the dead letter of the record at a position was first stored."""
    versions: list[tuple[float, Subscription]] = field(default_factory=list)
    """(virtual ms, value) of the subscription, in the order of the store."""


class TenantDelivery(NamedTuple):
    """An acknowledgement of an append, or records, that a proxy sent to a principal."""

    principal: str
    stream: str
    at_ms: float
    """When the proxy handed the message over to be sent."""
    is_append: bool


@dataclass(slots=True)
class GrantUse:
    """The permissions of principals, and what proxies sent to them. Times are virtual ms."""

    bound_ms: float
    """Time after which a revocation must be in force everywhere."""
    streams: dict[str, tuple[str, ...]]
    """The streams on which each principal has or had a grant."""
    revoked: dict[tuple[str, bool], list[tuple[float, float]]] = field(default_factory=dict)
    """(principal, True: to append, False: to read) to the periods without that permission: from the
    confirmed revocation until a new grant is ordered."""
    deliveries: list[TenantDelivery] = field(default_factory=list)
    seen: dict[tuple[str, str], None] = field(default_factory=dict)
    """(principal, stream) of the records that principals read, by their payloads."""


def token_of(session: int, number: int) -> bytes:
    """Return the unique part of a payload."""
    return b"@%04d.%06d@" % (session, number)


class History:
    """The calls, outcomes and reads of one stream. The workload fills it during the run."""

    def __init__(self, now_ms: Callable[[], float], numbers: Iterator[int] | None = None) -> None:
        """``numbers`` yields session numbers; share it so that tokens of histories are distinct."""
        self.appends: dict[bytes, RecordedAppend] = {}
        self.reads: list[RecordedRead] = []
        self.end_queries: list[EndQuery] = []
        self.endings: list[StreamEnding] = []
        self.reported_ends: list[ReportedEnd] = []
        self.truncations: list[Truncation] = []
        self.untruncations: list[Untruncation] = []
        self.sequence_gaps: list[SequenceGap] = []
        self.known_numbers: list[KnownNumber] = []
        self.admin_calls: list[AdminCall] = []
        """The administrative calls for the stream's name, whichever stream had it."""
        self.deleted_ms: float | None = None
        """When the stream's deletion was acknowledged."""
        self.session_count = 0
        self.now_ms = now_ms
        self._numbers = numbers or count(1)

    def new_session(self) -> int:
        """Return the number of a new writer session."""
        self.session_count += 1
        return next(self._numbers)

    def begin_append(self, session: int, number: int, padding: bytes) -> RecordedAppend:
        """Record an append that is about to be called."""
        append = RecordedAppend(session, number, token_of(session, number) + padding, self.now_ms())
        assert append.token not in self.appends
        self.appends[append.token] = append
        return append

    def finish_append(
        self,
        append: RecordedAppend,
        outcome: AppendOutcome,
        *,
        dlsn: Dlsn | None = None,
        regions: tuple[str, ...] = (),
        holders: tuple[str, ...] = (),
        reason: str = "",
        has_own_outcome: bool = True,
    ) -> None:
        """Record the outcome of an append."""
        assert append.ended_ms is None
        append.outcome, append.ended_ms = outcome, self.now_ms()
        append.has_own_outcome = has_own_outcome
        append.dlsn, append.regions, append.holders = dlsn, regions, holders
        append.reason = reason

    def begin_read(self, reader: str, start: Dlsn | None) -> RecordedRead:
        """Record that a reader is being opened."""
        read = RecordedRead(reader, start, called_ms=self.now_ms())
        self.reads.append(read)
        return read

    def fail_read(self, read: RecordedRead, error: BaseException) -> None:
        """Record that the reader, or opening it, raised ``error``, which ends the read."""
        read.failed_ms, read.failure = self.now_ms(), type(error).__name__

    def add_record(
        self,
        read: RecordedRead,
        dlsn: Dlsn,
        payload: bytes,
        txid: int = 0,
        producer: tuple[bytes, int] | None = None,
    ) -> None:
        """Record a delivered record."""
        read.records.append(DeliveredRecord(self.now_ms(), dlsn, payload, txid, producer))

    def sender_of(self, payload: bytes) -> RecordedAppend | None:
        """Return the append whose token a payload begins with; None if there is none."""
        return self.appends.get(payload[:TOKEN_BYTES])

    def appends_with_outcome(self, outcome: AppendOutcome) -> list[RecordedAppend]:
        """Return the appends with an outcome, in the order of their calls."""
        return [append for append in self.appends.values() if append.outcome is outcome]
