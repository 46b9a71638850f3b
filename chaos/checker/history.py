"""What the callers of a run saw: appends with their outcomes, reads in order, both with times.

Payloads are unique, so a record that is read names the append that sent it. An append whose caller
died before hearing has an unknown outcome.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ...core.protocol.dlsn import Dlsn

TOKEN = re.compile(rb"@\d{4}\.\d{6}@")
"""What makes a payload unique; found in raw bytes of disks too."""


class Outcome(Enum):
    """How an append ended."""

    OK = "ok"
    FAILED = "failed"  # certainly not appended
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Append:
    """One append of one writer session."""

    session: int
    number: int
    payload: bytes
    called_ms: float
    outcome: Outcome = Outcome.UNKNOWN
    ended_ms: float | None = None
    is_alone: bool = True
    """False: its caller heard of it only when others had ended, too."""
    dlsn: Dlsn | None = None
    regions: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    """Bookie ids whose disks had it for good at the moment of the acknowledgement."""
    reason: str = ""

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


@dataclass(slots=True)
class Read:
    """One run of one reader, from its start on; ``is_complete`` when it read to the end."""

    reader: str
    start: Dlsn | None
    """None: earliest."""
    records: list[Delivered] = field(default_factory=list)
    is_complete: bool = False


def token_of(session: int, number: int) -> bytes:
    """The unique part of a payload."""
    return b"@%04d.%06d@" % (session, number)


class History:
    """Filled by the workload while the run goes on, judged afterwards."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self.appends: dict[bytes, Append] = {}
        self.reads: list[Read] = []
        self.session_count = 0
        self._now_ms = now_ms

    def new_session(self) -> int:
        """A number for a writer that was opened."""
        self.session_count += 1
        return self.session_count

    def call(self, session: int, number: int, padding: bytes) -> Append:
        """An append is about to be called."""
        append = Append(session, number, token_of(session, number) + padding, self._now_ms())
        assert append.token not in self.appends
        self.appends[append.token] = append
        return append

    def end(
        self,
        append: Append,
        outcome: Outcome,
        *,
        dlsn: Dlsn | None = None,
        regions: tuple[str, ...] = (),
        holders: tuple[str, ...] = (),
        reason: str = "",
        is_alone: bool = True,
    ) -> None:
        """The caller heard; not ``is_alone``: it heard of several when the last ended."""
        assert append.ended_ms is None
        append.outcome, append.ended_ms = outcome, self._now_ms()
        append.is_alone = is_alone
        append.dlsn, append.regions, append.holders = dlsn, regions, holders
        append.reason = reason

    def begin_read(self, reader: str, start: Dlsn | None) -> Read:
        """A reader was opened."""
        read = Read(reader, start)
        self.reads.append(read)
        return read

    def deliver(self, read: Read, dlsn: Dlsn, payload: bytes) -> None:
        """A record came."""
        read.records.append(Delivered(self._now_ms(), dlsn, payload))

    def of_outcome(self, outcome: Outcome) -> list[Append]:
        """The appends that ended so, in order of their calls."""
        return [append for append in self.appends.values() if append.outcome is outcome]
