"""Chooses which copies to move so that bookies hold equal shares of their disks (rule RPR-18).
Pure.

A plan looks at one ledger after the other and remembers only the bytes of each bookie, so that its
memory does not grow with the number of ledgers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...core.protocol.bookie_id import BookieId, Region
from ...core.protocol.placement import BookieInfo, is_as_spread
from ...core.protocol.quorum import Quorum


@dataclass(frozen=True, slots=True)
class BookieFill:
    """A bookie that takes new data: the bytes that ledgers name it for, and its disk's size."""

    info: BookieInfo
    used_bytes: int
    capacity_bytes: int


@dataclass(frozen=True, slots=True)
class SettledCopies:
    """The copies of one settled fragment of a closed ledger, which may move."""

    ledger_id: int
    first_entry_id: int
    quorum: Quorum
    members: tuple[BookieInfo, ...]
    """The ensemble, by index."""
    bytes_each: int
    """Approximate bytes of each member."""


@dataclass(frozen=True, slots=True)
class Move:
    """One copy that moves from a bookie to another one of the same region."""

    ledger_id: int
    first_entry_id: int
    index: int
    source: BookieId
    target: BookieId
    bytes: int


class RebalancePlan:
    """The moves that even out the shares of used bytes within each region.

    A bookie is overfull if its share is more than ``tolerance_percent`` above that of its region.
    Each move takes from an overfull bookie and leaves the target with a smaller share than the
    source had, so the moves end.
    """

    def __init__(self, fills: Sequence[BookieFill], tolerance_percent: int) -> None:
        self.used_bytes = {fill.info.bookie: fill.used_bytes for fill in fills}
        """Bytes by bookie, after the moves so far."""
        self._fills = {fill.info.bookie: fill for fill in fills if fill.capacity_bytes > 0}
        self._limits = _limits(self._fills.values(), tolerance_percent)
        self._by_region: dict[Region | None, list[BookieFill]] = {}
        for fill in sorted(self._fills.values(), key=lambda fill: fill.info.bookie):
            self._by_region.setdefault(fill.info.region, []).append(fill)

    def is_overfull(self, bookie: BookieId) -> bool:
        """Return whether copies should move away from the bookie."""
        fill = self._fills.get(bookie)
        return fill is not None and self._share(fill, 0) > self._limits[fill.info.region]

    def moves_of(self, copies: SettledCopies) -> list[Move]:
        """Return the moves of one fragment, one after the other, and count them as made."""
        moves: list[Move] = []
        members = list(copies.members)
        for index, member in enumerate(copies.members):
            source = self._fills.get(member.bookie)
            if copies.bytes_each <= 0 or source is None or not self.is_overfull(member.bookie):
                continue
            target = self._target(copies, members, index, source)
            if target is None:
                continue
            members[index] = target.info
            self.used_bytes[member.bookie] -= copies.bytes_each
            self.used_bytes[target.info.bookie] += copies.bytes_each
            moves.append(
                Move(
                    copies.ledger_id,
                    copies.first_entry_id,
                    index,
                    member.bookie,
                    target.info.bookie,
                    copies.bytes_each,
                )
            )
        return moves

    def _target(
        self,
        copies: SettledCopies,
        members: Sequence[BookieInfo],
        index: int,
        source: BookieFill,
    ) -> BookieFill | None:
        """Return the bookie with the smallest share afterwards that keeps the copies as spread."""
        taken = {member.bookie for member in members}
        best: BookieFill | None = None
        best_share = self._share(source, 0)
        for fill in self._by_region[source.info.region]:
            share = self._share(fill, copies.bytes_each)
            if fill.info.bookie in taken or share >= best_share:
                continue
            if is_as_spread(copies.quorum, members, index, fill.info):
                best, best_share = fill, share
        return best

    def _share(self, fill: BookieFill, more: int) -> float:
        return (self.used_bytes[fill.info.bookie] + more) / fill.capacity_bytes


def _limits(fills: Iterable[BookieFill], tolerance_percent: int) -> dict[Region | None, float]:
    """Return the share above which a bookie is overfull, by region."""
    used: dict[Region | None, int] = {}
    capacity: dict[Region | None, int] = {}
    for fill in fills:
        region = fill.info.region
        used[region] = used.get(region, 0) + fill.used_bytes
        capacity[region] = capacity.get(region, 0) + fill.capacity_bytes
    return {
        region: used[region] / capacity[region] * (1 + tolerance_percent / 100) for region in used
    }
