"""The invariants by their ids, what they look at, and the list of what is broken."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...core.protocol.dlsn import FIRST_DLSN, Dlsn
from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.protocol.quorum import Quorum
from ...core.protocol.recovery import Evidence
from ...core.protocol.segments import Segment
from .history import History, LateAdd

EXAMPLES_MAX = 3
"""Violations of one invariant that are told; a broken one is often broken many times."""


class Violation(NamedTuple):
    """What is broken, by whom it is known and how it shows."""

    id: str
    text: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.id}: {self.text}"


class LedgerVersion(NamedTuple):
    """One version of a ledger's metadata in the order of the store; None: deleted."""

    at_ms: float
    metadata: LedgerMetadata | None


class SegmentVersion(NamedTuple):
    """One version of a segment's metadata; None: deleted."""

    at_ms: float
    segment: Segment | None


class Swap(NamedTuple):
    """A compare-and-set of a ledger's metadata, as the process that wanted it knows it."""

    client: str
    """The process."""
    ledger_id: int
    proposed: LedgerState
    expect: int
    """The version that it replaces, as the store counts them."""
    sent_ms: float
    ended_ms: float
    """When it had an answer, or was given up."""


@dataclass(slots=True)
class StreamVersions:
    """What was stored of one stream."""

    segments: dict[int, list[SegmentVersion]] = field(default_factory=dict)
    starts: list[tuple[float, Dlsn]] = field(default_factory=list)
    """(virtual ms, first active position), as they were stored."""
    deleting_ms: float | None = None
    """When its deletion began."""
    identity: str = ""
    """Of the one stream of this name that it is; the rest is empty where a name has one stream."""
    made_ms: float = 0.0
    gone_ms: float | None = None
    """When its record went."""
    unsubscribed: list[tuple[float, str]] = field(default_factory=list)
    """(virtual ms, name) of the subscriptions that went."""

    def start_at(self, at_ms: float) -> Dlsn:
        """What was the first active position."""
        return max((start for ms, start in self.starts if ms <= at_ms), default=FIRST_DLSN)


class EntryCopy(NamedTuple):
    """What one bookie answered to a plain read of one entry after the run: a valid copy."""

    lac: int
    length: int
    payload: bytes


class Rules:
    """What a version of a ledger's metadata says of each entry: its quorum, and who stores it."""

    __slots__ = ("_quorums", "metadata")

    def __init__(self, metadata: LedgerMetadata) -> None:
        self.metadata = metadata
        starts = [first for first, _ in metadata.r_ranges()]
        self._quorums = [(first, metadata.quorum_at(first)) for first in reversed(starts)]

    def quorum(self, entry_id: int) -> Quorum:
        """E, WQ, AQ and R of an entry."""
        return next(quorum for first, quorum in self._quorums if first <= entry_id)

    def write_set(self, entry_id: int) -> tuple[str, ...]:
        """The bookies that store an entry."""
        bookies = self.metadata.fragment_of(entry_id).bookies
        return tuple(bookies[index] for index in self.quorum(entry_id).write_set(entry_id))


@dataclass(slots=True)
class Testimony:
    """What bookies said on the wire, in virtual ms at which it left them."""

    fences: dict[tuple[str, int], float] = field(default_factory=dict)
    """(bookie id, ledger) to its first answer to a fencing read that was not "unknown"."""
    stored: dict[tuple[str, int, int], tuple[float, float]] = field(default_factory=dict)
    """(bookie id, ledger, entry) to the first and last time it confirmed a plain add of it."""
    copied: dict[tuple[str, int, int], float] = field(default_factory=dict)
    """(bookie id, ledger, entry) to the first time it confirmed a recovery's or repair's add."""
    denials: dict[tuple[str, int, int], float] = field(default_factory=dict)
    """(bookie id, ledger, entry) to the first "never had it" to a fencing read."""
    lacs: dict[int, list[tuple[float, str, int]]] = field(default_factory=dict)
    """By ledger: (virtual ms, bookie id, LAC) of each LAC that was taken without an entry."""
    tokens: dict[tuple[int, int], tuple[bytes, ...]] = field(default_factory=dict)
    """(ledger, entry) to the tokens of its records, as they were sent."""
    durable: dict[bytes, dict[str, float]] = field(default_factory=dict)
    """Token to the bookie ids on whose disks it was at some time for good, and since when."""


@dataclass(slots=True)
class RunRecord:
    """All that is known of a run when it is judged."""

    history: History
    ledgers: dict[int, list[LedgerVersion]]
    segments: dict[int, list[SegmentVersion]]
    """Of the one stream, by LSSN."""
    regions: dict[str, str]
    """Of every bookie id that was ever formatted, from the configuration of the run."""
    lost: frozenset[str] = frozenset()
    """Bookie ids whose data a fault destroyed or damaged."""
    liars: frozenset[str] = frozenset()
    """Bookie ids whose disk confirmed syncs that it did not do: of those, what they said counts."""
    copies: dict[int, dict[tuple[int, str], EntryCopy]] = field(default_factory=dict)
    """By ledger: (entry id, bookie id) to the copy found after the run."""
    unasked: frozenset[str] = frozenset()
    """Bookie ids that could not be asked after the run."""
    evidence: Sequence[Evidence] = ()
    testimony: Testimony = field(default_factory=Testimony)
    stored: StreamVersions = field(default_factory=StreamVersions)
    """The one stream's versions."""
    streams: dict[str, StreamVersions] = field(default_factory=dict)
    """Those of all streams of the run; empty where it had one."""
    swaps: Sequence[Swap] = ()
    late_adds: Sequence[LateAdd] = ()

    def is_gone(self, dlsn: Dlsn, at_ms: float = float("inf")) -> bool:
        """Whether what is at ``dlsn`` was truncated then, or its stream was being deleted."""
        deleting_ms = self.stored.deleting_ms
        is_deleted = deleting_ms is not None and deleting_ms <= at_ms
        return is_deleted or dlsn < self.stored.start_at(at_ms)

    def orphans(self) -> list[int]:
        """Ledgers that exist at the end and that no segment of any stream ever named: those of
        writers that died before they published them. Nobody deletes them."""
        named = {
            version.segment.ledger_id
            for stream in (self.stored, *self.streams.values())
            for versions in stream.segments.values()
            for version in versions
            if version.segment is not None
        }
        return [one for one in self.ledgers if one not in named and self.last_version(one)]

    def last_version(self, ledger_id: int) -> LedgerMetadata | None:
        """The ledger's metadata at the end."""
        versions = self.ledgers.get(ledger_id)
        return versions[-1].metadata if versions else None

    def ledger_of(self, lssn: int) -> int | None:
        """The ledger that a segment was first bound to."""
        for version in self.segments.get(lssn, ()):
            if version.segment is not None:
                return version.segment.ledger_id
        return None


Check = Callable[[RunRecord], Iterator[str]]

INVARIANTS: dict[str, Check] = {}


def invariant(name: str) -> Callable[[Check], Check]:
    """Registers a check under the id of its invariant."""

    def register(check: Check) -> Check:
        assert name not in INVARIANTS
        INVARIANTS[name] = check
        return check

    return register
