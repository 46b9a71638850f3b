"""Sums up the judgements of all ledgers: the durability report (rule PLC-23). Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ...core.protocol.bookie_id import BookieId
from .copy_states import BOOKIE_LEVEL, ClusterCopies, CopyState
from .judgement import CopyVerdict, Judgement, absent_members, judge
from .ledger_index import LayoutGroup, LedgerIndex

OPEN = "open"
CLOSED = "closed"

_MORE_THAN_NEEDED = 2
"""Factor by which the remembered judgements may exceed the groups."""

_CHANGES_MAX = 1_000
"""Number of changes of bookies after which all judgements are made anew."""


@dataclass(slots=True)
class StreamDurability:
    """The ledgers of one stream."""

    ledgers: int = 0
    worst: CopyVerdict = CopyVerdict.WHOLE
    at_risk: int = 0
    """Ledgers at risk, or worse."""
    one_bookie_from_loss: int = 0
    """Ledgers of which some entries have only one live copy."""
    is_blocked: bool = False
    """True if its open segment cannot be written."""
    is_one_bookie_from_blocking: bool = False


def _by_verdict() -> dict[CopyVerdict, int]:
    return dict.fromkeys(CopyVerdict, 0)


@dataclass(slots=True)
class DurabilityReport:
    """The durability of all ledgers, for one state of the cluster.

    A ledger is counted by its worst entry. Entries of open last fragments are not counted, because
    only their writers know the number; their ledgers are.
    """

    levels: tuple[str, ...]
    """The levels of failures: those at which bookies have labels."""
    bookies: dict[CopyState, int]
    """Bookies by state; decommissioned ones only if a ledger names them."""
    ledgers: dict[str, dict[CopyVerdict, int]] = field(
        default_factory=lambda: {OPEN: _by_verdict(), CLOSED: _by_verdict()}
    )
    """Ledgers by OPEN or CLOSED, and by verdict."""
    ledgers_unreadable: int = 0
    """Ledgers whose metadata is damaged, so that nothing is known about them."""
    entries: dict[CopyVerdict, int] = field(default_factory=_by_verdict)
    bytes: dict[CopyVerdict, int] = field(default_factory=_by_verdict)
    """Approximate payload bytes of closed ledgers."""
    one_failure_from_loss: dict[str, dict[str, int]] = field(default_factory=dict)
    """By level, and by OPEN or CLOSED: ledgers with entries whose live copies one failure takes."""
    one_failure_from_blocking: dict[str, int] = field(default_factory=dict)
    """By level: open ledgers that one failure makes unwritable."""
    writes_blocked: int = 0
    """Open ledgers that cannot be written now, with any bookies that are up."""
    ends_undecidable: int = 0
    """Open ledgers whose end cannot be found without the copies that are not live."""
    streams: dict[str, StreamDurability] = field(default_factory=dict)
    """``namespace/stream``: those that are not well, or all (see ``tally``)."""
    causes: dict[BookieId, tuple[CopyState, int]] = field(default_factory=dict)
    """Bookies without which ledgers are at risk: their states and the number of ledgers."""

    def ledgers_with(self, verdicts: Iterable[CopyVerdict], state: str = "") -> int:
        """Return the number of ledgers with one of the verdicts: OPEN, CLOSED, or both."""
        wanted = list(verdicts)
        return sum(
            count[verdict]
            for name, count in self.ledgers.items()
            if state in ("", name)
            for verdict in wanted
        )

    def ledgers_at_risk(self, state: str = "") -> int:
        """Return the number of ledgers at risk or worse."""
        return self.ledgers_with([v for v in CopyVerdict if v.is_at_risk], state)

    def ledgers_that_may_lose(self) -> int:
        """Return the number of ledgers with entries of which no live copy is certain."""
        return self.ledgers_with([v for v in CopyVerdict if v.may_lose])

    def entries_that_may_be_lost(self) -> int:
        """Return the number of counted entries of which no live copy is certain."""
        return sum(count for verdict, count in self.entries.items() if verdict.may_lose)

    def entries_without_copy(self) -> int:
        """Return the number of counted entries without a live copy."""
        return self.entries[CopyVerdict.UNAVAILABLE] + self.entries[CopyVerdict.LOST]

    def streams_at_risk(self) -> list[str]:
        """Return the streams with a ledger at risk, in order of their names."""
        return sorted(name for name, stream in self.streams.items() if stream.worst.is_at_risk)

    def streams_that_may_lose(self) -> list[str]:
        """Return the streams with entries of which no live copy is certain, by name."""
        return sorted(name for name, stream in self.streams.items() if stream.worst.may_lose)


class Judge:
    """Judges groups, and remembers the judgements until a bookie that they depend on changes.

    A judgement is examined when it is used, so that a change costs nothing at once.
    """

    def __init__(self, cluster: ClusterCopies) -> None:
        self.cluster = cluster
        self._incomplete: dict[frozenset[BookieId], ClusterCopies] = {}
        self._changes: list[frozenset[BookieId]] = []
        self._known: dict[LayoutGroup, tuple[Judgement, int]] = {}
        """The judgements, each with the number of changes that it includes."""

    def judge(self, group: LayoutGroup) -> Judgement:
        """Return the judgement of the ledgers of a group."""
        now = len(self._changes)
        known = self._known.get(group)
        if known is not None:
            found, included = known
            if included == now:
                return found
            if not any(_depends(group, changed) for changed in self._changes[included:]):
                self._known[group] = found, now
                return found
        found = judge(group.layout, self.cluster_of(group))
        self._known[group] = found, now
        return found

    def cluster_of(self, group: LayoutGroup) -> ClusterCopies:
        """Return the cluster as it is for the ledgers of a group (rule DSK-5)."""
        if not group.lacking:
            return self.cluster
        found = self._incomplete.get(group.lacking)
        if found is None:
            found = self._incomplete[group.lacking] = self.cluster.with_incomplete(group.lacking)
        return found

    def update(self, cluster: ClusterCopies, groups: Collection[LayoutGroup]) -> None:
        """Replace the state of the cluster. ``groups`` are all that there are.

        The judgements of others are forgotten when there are many of them.
        """
        changed = cluster.changed_since(self.cluster)
        self.cluster = cluster
        self._incomplete = {}
        if changed:
            self._changes.append(changed)
        if len(self._known) > _MORE_THAN_NEEDED * len(groups) or len(self._changes) > _CHANGES_MAX:
            self._known = {}
            self._changes = []


def _depends(group: LayoutGroup, changed: frozenset[BookieId]) -> bool:
    """Return whether a judgement may change; any bookie may replace a member of an open ledger."""
    layout = group.layout
    return layout.is_open or any(not changed.isdisjoint(part.bookies) for part in layout.parts)


class Tally:
    """Sums up the groups of an index."""

    def __init__(self, judge: Judge, *, every_stream: bool = False) -> None:
        """``every_stream``: report also on streams that are well."""
        self._judge = judge
        self._every_stream = every_stream
        levels = judge.cluster.levels
        counts = dict.fromkeys(CopyState, 0)
        for bookie, member in judge.cluster.members.items():
            is_incomplete = bookie in judge.cluster.lacking and member.state.is_live
            counts[CopyState.INCOMPLETE if is_incomplete else member.state] += 1
        self.report = DurabilityReport(levels, counts)
        self.report.one_failure_from_loss = {level: {OPEN: 0, CLOSED: 0} for level in levels}
        self.report.one_failure_from_blocking = dict.fromkeys(levels, 0)

    def add(self, group: LayoutGroup) -> None:
        """Count the ledgers of a group."""
        report, layout = self.report, group.layout
        found = self._judge.judge(group)
        state = OPEN if layout.is_open else CLOSED
        report.ledgers[state][found.worst] += group.ledgers
        for level in found.loss_levels:
            report.one_failure_from_loss[level][state] += group.ledgers
        for level in found.block_levels:
            report.one_failure_from_blocking[level] += group.ledgers
        report.writes_blocked += group.ledgers if found.is_blocked else 0
        report.ends_undecidable += group.ledgers if found.is_end_undecidable else 0
        self._add_entries(group, found)
        if found.worst.is_at_risk:
            for bookie, its_state in absent_members(layout, self._judge.cluster_of(group)).items():
                known = report.causes.get(bookie, (its_state, 0))[1]
                report.causes[bookie] = its_state, known + group.ledgers
        if self._every_stream or _is_worth_a_row(found):
            self._add_streams(group, found)

    def _add_entries(self, group: LayoutGroup, found: Judgement) -> None:
        report, total = self.report, group.total
        if not total:
            return
        if found.worst is CopyVerdict.WHOLE or len(found.verdicts) == 1:
            report.entries[found.worst] += total
            report.bytes[found.worst] += group.length
            return
        for verdict, count in zip(found.verdicts, group.entries, strict=True):
            report.entries[verdict] += count
            report.bytes[verdict] += group.length * count // total

    def _add_streams(self, group: LayoutGroup, found: Judgement) -> None:
        for name, count in group.streams.items():
            if name is None:
                continue
            stream = self.report.streams.setdefault(name, StreamDurability())
            stream.ledgers += count
            stream.worst = max(stream.worst, found.worst)
            stream.at_risk += count if found.worst.is_at_risk else 0
            stream.one_bookie_from_loss += count if BOOKIE_LEVEL in found.loss_levels else 0
            stream.is_blocked |= found.is_blocked
            stream.is_one_bookie_from_blocking |= BOOKIE_LEVEL in found.block_levels


def _is_worth_a_row(found: Judgement) -> bool:
    return (
        found.worst.is_at_risk
        or found.is_blocked
        or BOOKIE_LEVEL in found.loss_levels
        or BOOKIE_LEVEL in found.block_levels
    )


def tally(
    index: LedgerIndex, cluster: ClusterCopies, *, every_stream: bool = False
) -> DurabilityReport:
    """Return the report on all ledgers of an index."""
    sums = Tally(Judge(cluster), every_stream=every_stream)
    for group in index.groups():
        sums.add(group)
    sums.report.ledgers_unreadable = index.unreadable
    return sums.report


def entries_by_r(groups: Iterable[LayoutGroup]) -> dict[int, int]:
    """Return all entries by the R (``min_regions_for_durability``) that is recorded for them."""
    found: dict[int, int] = {}
    for group in groups:
        position = 0
        for part in group.layout.parts:
            count = sum(group.entries[position : position + part.turns])
            position += part.turns
            if count:
                r = part.quorum.min_regions
                found[r] = found.get(r, 0) + count
    return {r: found[r] for r in sorted(found)}


def as_document(report: DurabilityReport) -> dict[str, object]:
    """Return the numbers as JSON values, with stable keys; without streams and causes."""
    return {
        "ledgers": {state: _named(counts) for state, counts in report.ledgers.items()},
        "ledgers_unreadable": report.ledgers_unreadable,
        "entries": _named(report.entries),
        "bytes": _named(report.bytes),
        "one_failure_from_loss": report.one_failure_from_loss,
        "one_failure_from_blocking": report.one_failure_from_blocking,
        "writes_blocked": report.writes_blocked,
        "ends_undecidable": report.ends_undecidable,
    }


def _named(counts: Mapping[CopyVerdict, int]) -> dict[str, int]:
    return {verdict.key: counts[verdict] for verdict in CopyVerdict}
