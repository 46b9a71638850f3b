"""States of bookies that decide whether their copies count (rule PLC-23). Pure.

A copy is *live* if its bookie is registered and proves what it says. Copies on other bookies may
come back, or have gone.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ...core.protocol.bookie_id import BookieId
from ...core.protocol.placement import LEVELS, Path
from ..states import PlacementState

BOOKIE_LEVEL = "bookie"
"""The failure of one bookie, the smallest one."""

FAILURE_LEVELS = (BOOKIE_LEVEL, *reversed(LEVELS))
"""What may fail at once, the smallest first."""


class CopyState(Enum):
    """The state of the copies on a bookie."""

    UP = "up"
    DRAINING = "draining"  # live, and about to be moved away
    LIMBO = "limbo"  # registered, but it may have lost something that it acknowledged (BKE-16)
    DOWN = "down"  # has a cookie and is not registered: it may return
    LOST = "lost"  # declared offline, or not registered for so long that repair gave it up (RPR-4)
    DECOMMISSIONED = "decommissioned"  # neither registered nor known by a cookie: never returns

    @property
    def is_live(self) -> bool:
        """True if the copies can be read now, and none is missing as far as is known."""
        return self is CopyState.UP or self is CopyState.DRAINING

    @property
    def may_return(self) -> bool:
        """True if the copies are not live but may become so again."""
        return self is CopyState.LIMBO or self is CopyState.DOWN


def copy_state(
    *,
    is_registered: bool,
    has_cookie: bool,
    is_in_limbo: bool = False,
    is_given_up: bool = False,
    order: PlacementState | None = None,
) -> CopyState:
    """Return the state of a bookie's copies.

    ``is_given_up``: repair counts the bookie as lost. ``order``: the state that operators set.
    """
    if not is_registered and not has_cookie:
        return CopyState.DECOMMISSIONED
    if order is PlacementState.OFFLINE or (is_given_up and not is_registered):
        return CopyState.LOST
    if not is_registered:
        return CopyState.DOWN
    if is_in_limbo:
        return CopyState.LIMBO
    return CopyState.DRAINING if order is PlacementState.DRAINED else CopyState.UP


class Member(NamedTuple):
    """A bookie as the durability of its copies depends on it."""

    state: CopyState
    path: Path
    """Its location; only the region of a bookie that is not registered is known."""
    accepts_adds: bool = False
    """True if it is registered as writable and not in limbo."""
    accepts_ledgers: bool = False
    """True if it may also become a member of other ensembles."""

    def domain(self, level: str) -> tuple[str | None, ...]:
        """Return the domain of a level above the bookie that it lies in."""
        return self.path[: LEVELS.index(level) + 1]


_UNKNOWN = Member(CopyState.DECOMMISSIONED, (None,) * len(LEVELS))


@dataclass(frozen=True, slots=True)
class ClusterCopies:
    """The state of every bookie at one time."""

    members: Mapping[BookieId, Member]
    levels: tuple[str, ...] = field(init=False)
    """The ``FAILURE_LEVELS`` at which bookies have labels."""

    def __post_init__(self) -> None:
        labelled = [
            level
            for depth, level in enumerate(LEVELS)
            if any(member.path[depth] is not None for member in self.members.values())
        ]
        levels = tuple(lv for lv in FAILURE_LEVELS if lv == BOOKIE_LEVEL or lv in labelled)
        object.__setattr__(self, "levels", levels)

    def of(self, bookie: BookieId) -> Member:
        """Return the member; one that is not known counts as decommissioned."""
        return self.members.get(bookie, _UNKNOWN)

    def spares(self, allowed: Collection[str]) -> Iterator[tuple[BookieId, Member]]:
        """Yield the bookies of the allowed regions (all if empty) that may join an ensemble."""
        for bookie, member in self.members.items():
            if member.accepts_ledgers and (not allowed or member.path[0] in allowed):
                yield bookie, member

    def without(self, lost: Collection[BookieId]) -> "ClusterCopies":
        """Return the cluster in which these bookies are lost for good."""
        return ClusterCopies(
            {
                bookie: Member(CopyState.LOST, member.path) if bookie in lost else member
                for bookie, member in self.members.items()
            }
        )

    def changed_since(self, before: "ClusterCopies") -> frozenset[BookieId]:
        """Return the bookies that are not what they were."""
        known = {**before.members, **self.members}
        return frozenset(bookie for bookie in known if self.of(bookie) != before.of(bookie))
