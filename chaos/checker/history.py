"""What the callers of a run saw: appends with their outcomes, reads in order, both with times.

Payloads are unique, so a record that is read names the append that sent it. An append whose caller
died before hearing has an unknown outcome. A history is that of one stream.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import NamedTuple

from ...core.protocol.dlsn import Dlsn

TOKEN = re.compile(rb"@\d{4}\.\d{6}@")
"""What makes a payload unique; found in raw bytes of disks too."""


class AppendOutcome(Enum):
    """How an append ended."""

    OK = "ok"
    FAILED = "failed"  # certainly not appended
    UNKNOWN = "unknown"


@dataclass(slots=True)
class RecordedAppend:
    """One append of one writer session."""

    session: int
    number: int
    payload: bytes
    called_ms: float
    outcome: AppendOutcome = AppendOutcome.UNKNOWN
    ended_ms: float | None = None
    is_alone: bool = True
    """False: its caller heard of it only when others had ended, too."""
    dlsn: Dlsn | None = None
    regions: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    """Bookie ids whose disks had it for good at the moment of the acknowledgement."""
    reason: str = ""
    group: int = 0
    """Appends with one of the same value, not 0, were one record set."""
    producer: tuple[bytes, int] | None = None
    """Its producer's id and its number there; such an append may have been called many times."""
    told: list[Dlsn] = field(default_factory=list)
    """Of a numbered one: every position that one of its calls was told."""
    is_told_there: bool = False
    """Whether one of its calls was told that it is in the stream, and not where."""

    @property
    def token(self) -> bytes:
        """What is unique about the payload."""
        return token_of(self.session, self.number)

    def __str__(self) -> str:
        """For violations."""
        where = f" at {self.dlsn}" if self.dlsn else ""
        return f"append {self.session}.{self.number}{where} ({self.outcome.value})"


class Delivered(NamedTuple):
    """A record as a reader got it."""

    at_ms: float
    dlsn: Dlsn
    payload: bytes
    txid: int = 0
    """0: not noted."""
    producer: tuple[bytes, int] | None = None


@dataclass(slots=True)
class RecordedRead:
    """One run of one reader, from its start on; ``is_complete`` when it read to the end."""

    reader: str
    start: Dlsn | None
    """None: earliest."""
    records: list[Delivered] = field(default_factory=list)
    is_complete: bool = False
    called_ms: float = 0.0
    """When it was to be opened."""
    ready_ms: float | None = None
    """When it was open; None: not, or not noted."""
    seeks_txid: int | None = None
    """It began at the first record with at least this txid."""
    is_ended: bool = False
    """It was told that the stream ends behind its last record."""
    failed_ms: float | None = None
    failure: str = ""
    """The class of the error that ended it."""


class Look(NamedTuple):
    """Somebody was told, and not before ``called_ms``, that nothing visible is above ``end``."""

    who: str
    called_ms: float
    end: Dlsn


@dataclass(slots=True)
class End:
    """An attempt to end the stream; ``ended_ms`` when it was acknowledged."""

    session: int
    called_ms: float
    ended_ms: float | None = None


class Cut(NamedTuple):
    """A truncation to ``position`` that was acknowledged at ``at_ms``."""

    at_ms: float
    position: Dlsn


@dataclass(slots=True)
class Wish:
    """A call that makes, deletes or truncates a stream by its name."""

    kind: str
    """``create``, ``delete`` or ``truncate``."""
    called_ms: float
    identity: str | None = None
    """Of the stream that is meant, where the call says so."""
    position: Dlsn | None = None
    ended_ms: float | None = None
    """When it returned or raised; None: its caller died before."""
    is_unknown: bool = True
    """Whether its outcome is unknown: a creation may then come at any time."""


class Gap(NamedTuple):
    """A session refused a numbered append, saying that its producer left some out."""

    session: int
    at_ms: float
    append: RecordedAppend


class LateAdd(NamedTuple):
    """An add to a deleted ledger, sent on purpose to a bookie that said that it had none."""

    bookie: str
    ledger_id: int
    is_confirmed: bool
    is_readable: bool
    """Whether the entry could be read there afterwards."""


def token_of(session: int, number: int) -> bytes:
    """The unique part of a payload."""
    return b"@%04d.%06d@" % (session, number)


class History:
    """Filled by the workload while the run goes on, judged afterwards."""

    def __init__(self, now_ms: Callable[[], float], numbers: Iterator[int] | None = None) -> None:
        """``numbers``: for sessions; of several histories, so that no token is in two."""
        self.appends: dict[bytes, RecordedAppend] = {}
        self.reads: list[RecordedRead] = []
        self.looks: list[Look] = []
        self.ends: list[End] = []
        self.cuts: list[Cut] = []
        self.gaps: list[Gap] = []
        self.wishes: list[Wish] = []
        """Of the stream's name, whichever stream had it."""
        self.deleted_ms: float | None = None
        """When the stream's deletion was acknowledged."""
        self.session_count = 0
        self.now_ms = now_ms
        self._numbers = numbers or count(1)

    def new_session(self) -> int:
        """A number for a writer that was opened."""
        self.session_count += 1
        return next(self._numbers)

    def call(self, session: int, number: int, padding: bytes) -> RecordedAppend:
        """An append is about to be called."""
        append = RecordedAppend(session, number, token_of(session, number) + padding, self.now_ms())
        assert append.token not in self.appends
        self.appends[append.token] = append
        return append

    def end(
        self,
        append: RecordedAppend,
        outcome: AppendOutcome,
        *,
        dlsn: Dlsn | None = None,
        regions: tuple[str, ...] = (),
        holders: tuple[str, ...] = (),
        reason: str = "",
        is_alone: bool = True,
    ) -> None:
        """The caller heard; not ``is_alone``: it heard of several when the last ended."""
        assert append.ended_ms is None
        append.outcome, append.ended_ms = outcome, self.now_ms()
        append.is_alone = is_alone
        append.dlsn, append.regions, append.holders = dlsn, regions, holders
        append.reason = reason

    def begin_read(self, reader: str, start: Dlsn | None) -> RecordedRead:
        """A reader was opened."""
        read = RecordedRead(reader, start, called_ms=self.now_ms())
        self.reads.append(read)
        return read

    def fail(self, read: RecordedRead, error: BaseException) -> None:
        """The reader, or opening it, raised ``error``: that run of it is over."""
        read.failed_ms, read.failure = self.now_ms(), type(error).__name__

    def deliver(
        self,
        read: RecordedRead,
        dlsn: Dlsn,
        payload: bytes,
        txid: int = 0,
        producer: tuple[bytes, int] | None = None,
    ) -> None:
        """A record came."""
        read.records.append(Delivered(self.now_ms(), dlsn, payload, txid, producer))

    def of_outcome(self, outcome: AppendOutcome) -> list[RecordedAppend]:
        """The appends that ended so, in order of their calls."""
        return [append for append in self.appends.values() if append.outcome is outcome]
