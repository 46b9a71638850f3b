"""Judges the copies of a ledger: how many are live, and what one more failure would do (PLC-23).

Pure: the verdict follows from the ledger's layout and the states of the bookies.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from ...core.protocol.bookie_id import BookieId
from ...core.protocol.ledger_metadata import LedgerState
from ...core.protocol.placement import Path
from ...core.protocol.quorum import QuorumView
from .copy_states import BOOKIE_LEVEL, ClusterCopies, CopyState, Member
from .ledger_layout import LedgerLayout, Part
from .write_blocking import Replacement


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
    """No copy is live; a bookie that is down or in limbo may bring one back."""
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
    """What is known about the ledgers of one layout."""

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
        copies = _PartCopies(part, cluster)
        found = [copies.verdict(turn) for turn in range(len(copies.view.full_masks))]
        verdicts += found
        worst = max(worst, *found)
        if len(loss) < len(cluster.levels):
            for level in copies.loss_levels(cluster.levels):
                loss[level] = None
        if part.is_open and copies.is_end_undecidable():
            is_end_undecidable = True
    is_blocked, block_levels = _judge_writes(layout, cluster)
    if layout.state is LedgerState.IN_RECOVERY and is_end_undecidable:
        is_blocked, block_levels = True, ()
    return Judgement(
        tuple(verdicts),
        worst,
        tuple(level for level in cluster.levels if level in loss),
        is_blocked,
        block_levels,
        is_end_undecidable,
    )


class _PartCopies:
    """The copies of one part, as bit masks of ensemble indices."""

    def __init__(self, part: Part, cluster: ClusterCopies) -> None:
        self._used = part.used
        self._members = [cluster.of(bookie) for bookie in part.bookies]
        self.view = QuorumView(part.quorum, [member.path[0] for member in self._members])
        self._live = _mask(member.state.is_live for member in self._members)
        self._may_return = _mask(member.state.may_return for member in self._members)

    def verdict(self, turn: int) -> CopyVerdict:
        """Return the verdict of a write set."""
        full = self.view.full_masks[turn]
        if not self._used >> turn & 1:
            return CopyVerdict.WHOLE
        live = full & self._live
        if not live:
            is_lost = not full & self._may_return
            return CopyVerdict.LOST if is_lost else CopyVerdict.UNAVAILABLE
        if live != full and self.view.could_ack(full & ~live):
            return CopyVerdict.DOUBTFUL
        if not self.view.is_acked(live):
            return CopyVerdict.AT_RISK
        return CopyVerdict.WHOLE if live == full else CopyVerdict.REDUCED

    def loss_levels(self, levels: Sequence[str]) -> Iterator[str]:
        """Yield the levels at which one domain holds all live copies of some entries."""
        found: dict[str, None] = {}
        for turn, full in enumerate(self.view.full_masks):
            live = full & self._live
            if not live or not self._used >> turn & 1:
                continue
            if live.bit_count() == 1:
                yield from levels
                return
            members = [m for index, m in enumerate(self._members) if live >> index & 1]
            for level in levels:
                if level != BOOKIE_LEVEL and len({m.domain(level) for m in members}) == 1:
                    found[level] = None
        yield from found

    def is_end_undecidable(self) -> bool:
        """Return whether fencing the live copies leaves others that could acknowledge."""
        return any(self.view.could_ack(full & ~self._live) for full in self.view.full_masks)


class _Writes:
    """Whether entries can be acknowledged in the last fragment of an open ledger."""

    def __init__(self, layout: LedgerLayout, part: Part, cluster: ClusterCopies) -> None:
        self._layout = layout
        self._part = part
        self._cluster = cluster
        self._members = [cluster.of(bookie) for bookie in part.bookies]
        self._view = QuorumView(part.quorum, [member.path[0] for member in self._members])
        self._able = _mask(_accepts(member) for member in self._members)

    def needs_no_replacement(self) -> bool:
        """Return whether the members that accept adds satisfy P."""
        return all(self._view.is_acked(full & self._able) for full in self._view.full_masks)

    def are_possible(self, level: str = "", failed: object = None) -> bool:
        """Return whether writes go on after the failure of a domain, or of a bookie."""
        able = self._able
        for index, member in enumerate(self._members):
            if level and able >> index & 1 and self._domain(index, member, level) == failed:
                able &= ~(1 << index)
        if all(self._view.is_acked(full & able) for full in self._view.full_masks):
            return True
        spare: Counter[Path] = Counter()
        for bookie, member in self._cluster.spares(self._layout.allowed):
            has_failed = level != "" and failed == (
                bookie if level == BOOKIE_LEVEL else member.domain(level)
            )
            if bookie not in self._part.bookies and not has_failed:
                spare[member.path if self._layout.rule else (member.path[0], None, None, None)] += 1
        paths = [member.path for member in self._members]
        return Replacement(self._part.quorum, paths, able, spare, self._layout.rule).exists()

    def blocking_levels(self) -> Iterator[str]:
        """Yield the levels at which the failure of one domain blocks writes."""
        needs_spares = not self.needs_no_replacement()
        for level in self._cluster.levels:
            domains: dict[object, None] = {}
            for index, member in enumerate(self._members):
                if self._able >> index & 1:
                    domains[self._domain(index, member, level)] = None
            if needs_spares:
                for bookie, member in self._cluster.spares(self._layout.allowed):
                    domains[bookie if level == BOOKIE_LEVEL else member.domain(level)] = None
            if not all(self.are_possible(level, domain) for domain in domains):
                yield level

    def _domain(self, index: int, member: Member, level: str) -> object:
        return self._part.bookies[index] if level == BOOKIE_LEVEL else member.domain(level)


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


def _accepts(member: Member) -> bool:
    return member.accepts_adds and member.state.is_live


def _mask(flags: Iterator[bool]) -> int:
    return sum(1 << index for index, flag in enumerate(flags) if flag)
