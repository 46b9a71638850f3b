"""The record of a run, and the registry of the invariants that are evaluated on it.

The invariants are described in ``docs/protocol/invariants.md``.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...core.ledger.slow_departure import SlowDeparture
from ...core.protocol.dlsn import FIRST_DLSN, Dlsn
from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.protocol.quorum import Quorum
from ...core.protocol.recovery import Evidence
from ...core.protocol.segments import Segment
from ...regions.ownerless.ownerless_ledgers import Takeover
from .applications.archive_use import ArchiveUse
from .applications.schema_use import SchemaUse
from .applications.topic_use import TopicUse
from .history import GrantUse, History, LateAdd, RecordedRead, SubscriptionUse
from .upgrades.upgrade_use import UpgradeUse

EXAMPLES_MAX = 3
"""Maximum number of reported violations of one invariant."""


class Violation(NamedTuple):
    """A violated invariant: its id and a description of the example."""

    id: str
    text: str

    def __str__(self) -> str:
        """Return one line with the id and the text."""
        return f"{self.id}: {self.text}"


class LedgerVersion(NamedTuple):
    """One version of a ledger's metadata, in the order of the store; None: deleted."""

    at_ms: float
    metadata: LedgerMetadata | None


class SegmentVersion(NamedTuple):
    """One version of a segment's metadata; None: deleted."""

    at_ms: float
    segment: Segment | None


class CompareAndSet(NamedTuple):
    """A compare-and-set of a ledger's metadata, as seen by the process that sent it."""

    client: str
    """The name of the process."""
    ledger_id: int
    proposed: LedgerState
    expect: int
    """The store's version number that it replaces."""
    sent_ms: float
    ended_ms: float
    """When it was answered or timed out."""


class UnreachableRegion(NamedTuple):
    """A period in which the writer of a run reached no bookie of a region, in virtual ms.

    The bookies stayed registered, and all the other ones served.
    """

    region: str
    from_ms: float
    to_ms: float


class MachineFault(NamedTuple):
    """A period in which all bookies of a machine were down, in virtual milliseconds."""

    machine: str
    from_ms: float
    to_ms: float


@dataclass(slots=True)
class SealPeriod:
    """A period in which the main stream was sealed, in virtual milliseconds."""

    confirmed_ms: float
    unsealing_ms: float = float("inf")
    """When the unsealing was ordered."""


@dataclass(slots=True)
class StreamVersions:
    """The versions of one stream's metadata."""

    segments: dict[int, list[SegmentVersion]] = field(default_factory=dict)
    starts: list[tuple[float, Dlsn]] = field(default_factory=list)
    """(virtual ms, first active position), in the order of the store."""
    deleting_ms: float | None = None
    """When the deletion of the stream began."""
    identity: str = ""
    """The identity of this incarnation. It and the fields below are set only in runs that recreate
    streams."""
    created_ms: float = 0.0
    removed_ms: float | None = None
    """When the stream's record was deleted."""
    removed_subscriptions: list[tuple[float, str]] = field(default_factory=list)
    """(virtual ms, name) of the deleted subscriptions."""

    def start_at(self, at_ms: float) -> Dlsn:
        """Return the first active position at a moment."""
        return next((start for ms, start in reversed(self.starts) if ms <= at_ms), FIRST_DLSN)

    def starts_in(self, from_ms: float, to_ms: float) -> list[Dlsn]:
        """Return the first active positions at all moments of a period."""
        changes = [start for ms, start in self.starts if from_ms < ms <= to_ms]
        return [self.start_at(from_ms), *changes]


class EntryCopy(NamedTuple):
    """A valid copy of an entry, which one bookie returned to a plain read after the run."""

    lac: int
    length: int
    payload: bytes


class Rules:
    """The quorum and the write set of each entry according to one version of ledger metadata."""

    __slots__ = ("_quorums", "_write_sets", "metadata")

    def __init__(self, metadata: LedgerMetadata) -> None:
        self.metadata = metadata
        starts = [first for first, _ in metadata.r_ranges()]
        self._quorums = [(first, metadata.quorum_at(first)) for first in reversed(starts)]
        self._write_sets: dict[tuple[tuple[str, ...], int, int], tuple[str, ...]] = {}
        """The bookies by ensemble, write quorum, and entry id modulo E."""

    def quorum(self, entry_id: int) -> Quorum:
        """Return E, WQ, AQ and R of an entry."""
        for first, quorum in self._quorums:
            if first <= entry_id:
                return quorum
        raise AssertionError(f"ledger {self.metadata.ledger_id}: no quorum of entry {entry_id}")

    def write_set(self, entry_id: int) -> tuple[str, ...]:
        """Return the bookies that should store an entry."""
        bookies, quorum = self.metadata.fragment_of(entry_id).bookies, self.quorum(entry_id)
        key = bookies, quorum.write_quorum, entry_id % quorum.ensemble_size
        found = self._write_sets.get(key)
        if found is None:
            found = tuple(bookies[index] for index in quorum.write_set(entry_id))
            self._write_sets[key] = found
        return found


@dataclass(slots=True)
class BookieObservations:
    """Responses of bookies and the data on their disks, with virtual times in milliseconds.

    The time of a response is the moment at which it was sent.
    """

    fences: dict[tuple[str, int], float] = field(default_factory=dict)
    """(bookie id, ledger) to the first response to a fencing read other than "unknown"."""
    stored: dict[tuple[str, int, int], tuple[float, float]] = field(default_factory=dict)
    """(bookie id, ledger, entry) to the first and last confirmation of a plain add."""
    copied: dict[tuple[str, int, int], float] = field(default_factory=dict)
    """(bookie id, ledger, entry) to the first confirmation of an add of a recovery or repair."""
    listed: dict[tuple[str, int, int], float] = field(default_factory=dict)
    """(bookie id, ledger, entry) to the first list of the ledger's entries that has the entry."""
    denials: dict[tuple[str, int, int], float] = field(default_factory=dict)
    """(bookie id, ledger, entry) to the first response "never had it" to a fencing read."""
    withdrawals: dict[tuple[str, int, int], tuple[float, float]] = field(default_factory=dict)
    """(bookie id, ledger, entry) to the first and last response "no such entry" or "no such ledger"
    to a plain read, after the bookie had confirmed an add of the entry."""
    lacs: dict[int, list[tuple[float, str, int]]] = field(default_factory=dict)
    """Ledger to the (virtual ms, bookie id, LAC) of each explicit LAC that was confirmed."""
    tokens: dict[tuple[int, int], tuple[bytes, ...]] = field(default_factory=dict)
    """(ledger, entry) to the tokens of the records that were sent to it."""
    durable: dict[bytes, dict[str, float]] = field(default_factory=dict)
    """Token to the bookie ids on whose disks it has ever been durable, and since when."""

    def confirmations(self) -> dict[tuple[int, int], dict[str, float]]:
        """Return, for each (ledger, entry), when each bookie first confirmed that it has it.

        Repair does not copy an entry that a successor lists already: it may have had it from the
        writer, without that its response was received (rule RPR-10).
        """
        found: dict[tuple[int, int], dict[str, float]] = {}
        for (bookie, ledger_id, entry_id), (at_ms, _) in self.stored.items():
            found.setdefault((ledger_id, entry_id), {})[bookie] = at_ms
        for (bookie, ledger_id, entry_id), at_ms in (*self.copied.items(), *self.listed.items()):
            bookies = found.setdefault((ledger_id, entry_id), {})
            bookies[bookie] = min(at_ms, bookies.get(bookie, at_ms))
        return found


@dataclass(slots=True)
class RunRecord:
    """Everything that the checker knows about a run."""

    history: History
    ledgers: dict[int, list[LedgerVersion]]
    segments: dict[int, list[SegmentVersion]]
    """The versions of the main stream's segments, by LSSN."""
    regions: dict[str, str]
    """The region of every bookie id that was ever formatted, from the configuration of the run."""
    lost: frozenset[str] = frozenset()
    """Bookie ids whose data a fault destroyed or damaged."""
    lying_bookies: frozenset[str] = frozenset()
    """Bookie ids whose disk confirmed syncs that it did not do. Their confirmations count."""
    copies: dict[int, dict[tuple[int, str], EntryCopy]] = field(default_factory=dict)
    """Ledger to the copies that were found after the run, by (entry id, bookie id)."""
    copies_read_ms: float = float("inf")
    """When the reading of the copies began. A bookie may confirm an add later than that, which
    waited for its disk."""
    unreachable: frozenset[str] = frozenset()
    """Bookie ids that could not be reached after the run."""
    kept_by_rebuild: Mapping[tuple[int, int], frozenset[str]] = field(default_factory=dict)
    """Entries that may have been acknowledged when the metadata store was lost, by (ledger, entry).

    With the bookie ids that held the entry then, or may have held it (rule BAK-3), or that held it
    and were lost and replaced. They count for its quorum until repair has run, whether or not the
    metadata names them (rule BAK-4).
    """
    lost_before_rebuild: frozenset[str] = frozenset()
    """Bookie ids without an inventory. The rebuild did not know their regions."""
    copied_fragments: frozenset[tuple[int, int]] = frozenset()
    """(ledger, first entry) of the fragments that the rebuild found in copies of the metadata."""
    rebuilt_at_ms: float = float("inf")
    """Time at which the metadata store was rebuilt; infinity if it was not."""
    evidence: Sequence[Evidence] = ()
    observed: BookieObservations = field(default_factory=BookieObservations)
    stored: StreamVersions = field(default_factory=StreamVersions)
    """The versions of the main stream's metadata."""
    streams: dict[str, StreamVersions] = field(default_factory=dict)
    """The versions of the metadata of all streams of the run, by a name for violations."""
    purge_grace_ms: int | None = None
    """The grace period of all streams of the run; None: it is not known, or not kept because the
    clocks differed."""
    is_truncated_by_calls: bool = False
    """True if nothing but recorded calls truncates the main stream: no policy does."""
    stale_reads_ms: Sequence[float] = ()
    """When readers used old metadata, in order (rule STR-28)."""
    compare_and_sets: Sequence[CompareAndSet] = ()
    late_adds: Sequence[LateAdd] = ()
    takeovers: Sequence[Takeover] = ()
    """The decisions of repair to take the main stream over from a writer that is gone."""
    seals: Sequence[SealPeriod] = ()
    unreachable_regions: Sequence[UnreachableRegion] = ()
    """The cuts of the only writer of the run; empty if there are several writers."""
    machines: dict[str, str] = field(default_factory=dict)
    """The machine of every bookie id, if bookies share machines; else empty."""
    machine_faults: Sequence[MachineFault] = ()
    """If bookies share machines: when each of these was out of service."""
    subscription: SubscriptionUse | None = None
    """The consumers that acknowledge single records of the main stream, if there are any."""
    topic: TopicUse | None = None
    """The topic that applications write and read through proxies, if there is one."""
    schemas: SchemaUse | None = None
    """The schemas that programs added to the main stream, if they did."""
    archives: ArchiveUse | None = None
    """The archives of the main stream, if the run has a cold store."""
    grants: GrantUse | None = None
    """The use of permissions, if the proxies of the run check them."""
    upgrades: UpgradeUse | None = None
    """The versions of the processes, if they differ."""
    slow_departures: Sequence[SlowDeparture] = ()
    slow_hold_ms: int = 60_000
    """The setting of the writers: the shortest time between two departures of one of them."""

    def is_removed(
        self, dlsn: Dlsn, at_ms: float = float("inf"), *, since_ms: float | None = None
    ) -> bool:
        """True if ``dlsn`` was truncated at that time, or the stream was being deleted.

        With ``since_ms``: at some time from then on.
        """
        deleting_ms = self.stored.deleting_ms
        is_deleted = deleting_ms is not None and deleting_ms <= at_ms
        starts = self.stored.starts_in(at_ms if since_ms is None else since_ms, at_ms)
        return is_deleted or dlsn < max(starts)

    def starts_at_opening(self, read: RecordedRead) -> list[Dlsn]:
        """Return the first active positions that a reader may have seen when it was opened."""
        assert read.ready_ms is not None
        is_old = self.may_be_old(read.called_ms, read.ready_ms)
        return self.stored.starts_in(0.0 if is_old else read.called_ms, read.ready_ms)

    def may_be_old(self, from_ms: float, to_ms: float) -> bool:
        """True if some reader used old metadata in a period."""
        index = bisect_left(self.stale_reads_ms, from_ms)
        return index < len(self.stale_reads_ms) and self.stale_reads_ms[index] <= to_ms

    def regions_seen_by_rebuild(self, bookies: frozenset[str]) -> Mapping[str, str]:
        """Return the regions with which a rebuild counted these and the other bookies (rule BAK-3).

        It did not know where the lost ones were, so each of them may have been in a region of its
        own.
        """
        lost = bookies & self.lost_before_rebuild
        if not lost:
            return self.regions
        return {**self.regions, **{b: f"unknown region of {b}" for b in lost}}

    def orphans(self) -> list[int]:
        """Return the ledgers that exist at the end and that no segment of any stream ever named.

        Their writers died before they published them.
        """
        named = {
            version.segment.ledger_id
            for stream in (self.stored, *self.streams.values())
            for versions in stream.segments.values()
            for version in versions
            if version.segment is not None
        }
        return [
            ledger_id
            for ledger_id in self.ledgers
            if ledger_id not in named and self.last_version(ledger_id)
        ]

    def last_version(self, ledger_id: int) -> LedgerMetadata | None:
        """Return the ledger's metadata at the end; None if it was deleted or never existed."""
        versions = self.ledgers.get(ledger_id)
        return versions[-1].metadata if versions else None

    def ledger_of(self, lssn: int) -> int | None:
        """Return the ledger to which a segment was first bound; None if there is no segment."""
        for version in self.segments.get(lssn, ()):
            if version.segment is not None:
                return version.segment.ledger_id
        return None


Check = Callable[[RunRecord], Iterator[str]]

INVARIANTS: dict[str, Check] = {}


def invariant(name: str) -> Callable[[Check], Check]:
    """Register a check under the id of its invariant."""

    def register(check: Check) -> Check:
        assert name not in INVARIANTS
        INVARIANTS[name] = check
        return check

    return register
