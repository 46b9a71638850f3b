"""Judges the copies of a ledger: how many are live, and what one more failure would do (PLC-23).

Pure: the verdict follows from the ledger's layout and the states of the bookies.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from ...core.protocol.bookie_id import BookieId
from ...core.protocol.ledger_metadata import LedgerState
from ...core.protocol.placement import LEVELS, Path
from ...core.protocol.quorum import Quorum, QuorumView
from .copy_states import (
    BOOKIE_LEVEL,
    LIVE,
    MAY_RETURN,
    ClusterCopies,
    CopyKind,
    CopyState,
    Member,
)
from .ledger_layout import LayoutPart, LedgerLayout
from .write_blocking import can_be_replaced

_REGION = LEVELS[0]


class CopyVerdict(IntEnum):
    """The state of an entry's copies; that of a ledger is the worst one of its entries."""

    WHOLE = 0
    """All WQ copies are live."""
    REDUCED = 1
    """Fewer than WQ copies are live, but AQ in R regions."""
    AT_RISK = 2
    """Fewer than AQ copies are live, or in fewer than R regions. One of them certainly holds each
    acknowledged entry."""
    DOUBTFUL = 3
    """A copy is live, but those that are not could have acknowledged entries alone."""
    UNAVAILABLE = 4
    """No copy is live; a bookie that is down, in limbo or incomplete may bring one back."""
    LOST = 5
    """No copy is live, and none can return."""

    @property
    def key(self) -> str:
        """The name in metrics and JSON."""
        return self.name.lower()

    @property
    def is_at_risk(self) -> bool:
        """True if fewer copies or regions are live than an acknowledgement promises."""
        return self >= CopyVerdict.AT_RISK

    @property
    def may_lose(self) -> bool:
        """True if it is not certain that a live copy of every acknowledged entry is left."""
        return self >= CopyVerdict.DOUBTFUL


class Judgement(NamedTuple):
    """The verdicts on the ledgers of one layout."""

    verdicts: tuple[CopyVerdict, ...]
    """By part and write set, one part after the other; WHOLE for a write set without entries."""
    worst: CopyVerdict
    loss_levels: tuple[str, ...]
    """The levels of failures of which one would take the last live copies of some entries."""
    is_blocked: bool
    """True if the next entry cannot be acknowledged, with any replacement that is allowed."""
    block_levels: tuple[str, ...]
    """The levels of failures of which one would block writes that are possible now."""
    is_end_undecidable: bool
    """True if the end of the ledger cannot be found without the copies that are not live."""


def judge(layout: LedgerLayout, cluster: ClusterCopies) -> Judgement:
    """Return the judgement of all ledgers with this layout."""
    verdicts: list[CopyVerdict] = []
    worst = CopyVerdict.WHOLE
    loss: dict[str, None] = {}
    is_end_undecidable = False
    for part in layout.parts:
        found = _judge_kinds(part.quorum, part.used, cluster.kinds_of(part.bookies))
        verdicts += found.verdicts
        worst = max(worst, found.worst)
        for live in found.in_one_region:
            members = [m for i, m in enumerate(part.bookies) if live >> i & 1]
            loss |= dict.fromkeys(_common_levels([cluster.of(m) for m in members], cluster.levels))
        is_end_undecidable |= part.is_open and found.is_end_undecidable
    is_blocked, block_levels = _judge_writes(layout, cluster)
    if layout.state is LedgerState.IN_RECOVERY and is_end_undecidable:
        is_blocked, block_levels = True, ()
    loss_levels = tuple(level for level in cluster.levels if level in loss) if loss else ()
    return Judgement(
        tuple(verdicts), worst, loss_levels, is_blocked, block_levels, is_end_undecidable
    )


class _KindsJudgement(NamedTuple):
    """The part of a judgement that follows from the kinds of the copies alone."""

    verdicts: tuple[CopyVerdict, ...]
    worst: CopyVerdict
    in_one_region: tuple[int, ...]
    """The live copies of each write set, as bit masks, that all lie in one region."""
    is_end_undecidable: bool


@lru_cache(maxsize=50_000)
def _judge_kinds(quorum: Quorum, used: int, kinds: tuple[CopyKind, ...]) -> _KindsJudgement:
    """Judge a part. Cached, because few of the possible combinations occur."""
    regions = [region for _, region in kinds]
    view = QuorumView(quorum, regions)
    live = _mask(kind == LIVE for kind, _ in kinds)
    may_return = _mask(kind == MAY_RETURN for kind, _ in kinds)
    verdicts = []
    in_one_region: dict[int, None] = {}
    for turn, full in enumerate(view.full_masks):
        if not used >> turn & 1:
            verdicts.append(CopyVerdict.WHOLE)
            continue
        verdicts.append(_verdict(view, full, full & live, full & may_return))
        if len({region for i, region in enumerate(regions) if full & live & 1 << i}) == 1:
            in_one_region[full & live] = None
    return _KindsJudgement(
        tuple(verdicts),
        max(verdicts, default=CopyVerdict.WHOLE),
        tuple(in_one_region),
        any(view.could_ack(full & ~live) for full in view.full_masks),
    )


def _verdict(view: QuorumView, full: int, live: int, may_return: int) -> CopyVerdict:
    """Return the verdict of a write set, from bit masks of its members."""
    if not live:
        return CopyVerdict.UNAVAILABLE if may_return else CopyVerdict.LOST
    if live != full and view.could_ack(full & ~live):
        return CopyVerdict.DOUBTFUL
    if not view.is_acked(live):
        return CopyVerdict.AT_RISK
    return CopyVerdict.WHOLE if live == full else CopyVerdict.REDUCED


def _common_levels(members: Sequence[Member], levels: Sequence[str]) -> Sequence[str]:
    """Return the levels at which all members lie in one domain."""
    if len(members) == 1:
        return levels
    return [
        level
        for level in levels
        if level != BOOKIE_LEVEL and len({member.domain(level) for member in members}) == 1
    ]


class _Writes:
    """Decides if entries can be acknowledged in the last fragment of an open ledger."""

    def __init__(self, layout: LedgerLayout, part: LayoutPart, cluster: ClusterCopies) -> None:
        self._allowed = layout.allowed
        self._rule = layout.rule
        self._part = part
        self._cluster = cluster
        self._members = [cluster.of(bookie) for bookie in part.bookies]
        self._paths = tuple(m.path if layout.rule else _region_only(m) for m in self._members)
        self._view = QuorumView(part.quorum, [path[0] for path in self._paths])
        self._able = _mask(member.takes_next_entry for member in self._members)

    def are_possible(self, level: str = "", failed: object = None) -> bool:
        """Return whether writes go on after the failure of a domain, or of a bookie."""
        able = self._able
        if level:
            for index, bookie in enumerate(self._part.bookies):
                if able >> index & 1 and self._cluster.domain_of(bookie, level) == failed:
                    able &= ~(1 << index)
        if self._suffice(able):
            return True
        spare = tuple(sorted(self._spare(level, failed).items(), key=str))
        return can_be_replaced(self._part.quorum, self._paths, able, spare, self._rule)

    def blocking_levels(self) -> Iterator[str]:
        """Yield the levels at which the failure of one domain blocks writes."""
        if all(self._suffice(self._able & ~self._in(path[0])) for path in self._paths):
            return  # no failure within a region does more
        needs_spares = not self._suffice(self._able)
        for level in self._cluster.levels:
            domains: dict[object, None] = {}
            for index, bookie in enumerate(self._part.bookies):
                if self._able >> index & 1:
                    domains[self._cluster.domain_of(bookie, level)] = None
            if needs_spares:
                domains |= dict.fromkeys(self._cluster.spares[level])
            if not all(self.are_possible(level, domain) for domain in domains):
                yield level

    def _suffice(self, able: int) -> bool:
        return all(self._view.is_acked(full & able) for full in self._view.full_masks)

    def _in(self, region: str | None) -> int:
        return _mask(path[0] == region for path in self._paths)

    def _spare(self, level: str, failed: object) -> Counter[Path]:
        """Count the bookies that may take a place after the failure, by location."""
        cluster, most = self._cluster, self._part.quorum.ensemble_size
        excluded = dict.fromkeys(self._part.bookies)
        if level:
            excluded |= dict.fromkeys(cluster.spares[level].get(failed, ()))
        found: Counter[Path] = Counter()
        for domain, bookies in cluster.spares[_REGION].items():
            region = cluster.of(bookies[0]).path[0]
            if self._allowed and region not in self._allowed:
                continue
            if self._rule:
                found.update(cluster.of(b).path for b in bookies if b not in excluded)
                continue
            without = sum(1 for bookie in excluded if cluster.is_spare_in(bookie, domain))
            found[region, None, None, None] = min(len(bookies) - without, most)
        return found


def _judge_writes(layout: LedgerLayout, cluster: ClusterCopies) -> tuple[bool, tuple[str, ...]]:
    if layout.writing is None:
        return False, ()
    writes = _Writes(layout, layout.writing, cluster)
    if not writes.are_possible():
        return True, ()
    return False, tuple(writes.blocking_levels())


def absent_members(layout: LedgerLayout, cluster: ClusterCopies) -> dict[BookieId, CopyState]:
    """Return the bookies of a layout whose copies are not live, with their states."""
    found: dict[BookieId, CopyState] = {}
    for part in layout.parts:
        for bookie in part.bookies:
            state = cluster.of(bookie).state
            if not state.is_live:
                found[bookie] = state
    return found


def _region_only(member: Member) -> Path:
    return member.path[0], None, None, None


def _mask(flags: Iterator[bool]) -> int:
    return sum(1 << index for index, flag in enumerate(flags) if flag)
