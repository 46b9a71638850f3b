"""States of bookies that decide whether their copies count (rule PLC-23). Pure.

A copy is *live* if its bookie is registered and proves what it says. Copies on other bookies may
come back, or are gone.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ...core.protocol.bookie_id import BookieId
from ...core.protocol.placement import LEVELS, Path
from ..states import PlacementState

BOOKIE_LEVEL = "bookie"
"""The failure of one bookie, the smallest one."""

FAILURE_LEVELS = (BOOKIE_LEVEL, *reversed(LEVELS))
"""The levels of failures, the smallest first."""


class CopyState(Enum):
    """The state of the copies on a bookie."""

    UP = "up"
    DRAINING = "draining"  # live, and about to be moved away
    LIMBO = "limbo"  # registered, but it may have lost something that it acknowledged (BKE-16)
    INCOMPLETE = "incomplete"  # registered, but a data directory with copies failed (DSK-5)
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
        return self in (CopyState.LIMBO, CopyState.INCOMPLETE, CopyState.DOWN)


def copy_state(
    *,
    is_registered: bool,
    has_cookie: bool,
    is_in_limbo: bool = False,
    is_incomplete: bool = False,
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
    if is_incomplete:
        return CopyState.INCOMPLETE
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

    @property
    def takes_next_entry(self) -> bool:
        """True if the next entry of an open ledger that names the bookie can be stored there."""
        return self.accepts_adds and (self.state.is_live or self.state is CopyState.INCOMPLETE)

    def domain(self, level: str) -> tuple[str | None, ...]:
        """Return the domain of a level above the bookie that it lies in."""
        return self.path[: LEVELS.index(level) + 1]


_UNKNOWN = Member(CopyState.DECOMMISSIONED, (None,) * len(LEVELS))

LIVE, MAY_RETURN, GONE = 2, 1, 0

CopyKind = tuple[int, str | None]
"""LIVE, MAY_RETURN or GONE, and the region: all that most decisions depend on."""

_GONE: CopyKind = (GONE, None)


@dataclass(frozen=True, slots=True)
class ClusterCopies:
    """The state of every bookie at one time."""

    members: Mapping[BookieId, Member]
    lacking: Mapping[BookieId, frozenset[int]] = field(default_factory=dict, compare=False)
    """The ledgers of which a bookie lacks copies although its state is live (rule DSK-5)."""
    levels: tuple[str, ...] = field(init=False)
    """The ``FAILURE_LEVELS`` at which bookies have labels."""
    kinds: Mapping[BookieId, CopyKind] = field(init=False, compare=False)
    """The kind of the copies on each member."""
    spares: Mapping[str, Mapping[object, tuple[BookieId, ...]]] = field(init=False, compare=False)
    """The bookies that may join an ensemble, by level and domain (or bookie)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "spares", _by_domain(self.members))
        kinds = {bookie: _kind(member) for bookie, member in self.members.items()}
        object.__setattr__(self, "kinds", kinds)
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

    def kinds_of(self, bookies: Iterable[BookieId]) -> tuple[CopyKind, ...]:
        """Return the kind of the copies on each of some bookies."""
        kinds = self.kinds
        return tuple([kinds.get(bookie, _GONE) for bookie in bookies])

    def domain_of(self, bookie: BookieId, level: str) -> object:
        """Return the domain of a level that a bookie lies in; at the lowest level itself."""
        return bookie if level == BOOKIE_LEVEL else self.of(bookie).domain(level)

    def is_spare_in(self, bookie: BookieId, region: object) -> bool:
        """Return whether a bookie is one of the spares of a region, which is given as a domain."""
        member = self.members.get(bookie)
        return member is not None and member.accepts_ledgers and member.path[:1] == region

    def without(self, lost: Collection[BookieId]) -> "ClusterCopies":
        """Return the cluster in which these bookies are lost for good."""
        return ClusterCopies(
            {
                bookie: Member(CopyState.LOST, member.path) if bookie in lost else member
                for bookie, member in self.members.items()
            },
            self.lacking,
        )

    def with_incomplete(self, bookies: Collection[BookieId]) -> "ClusterCopies":
        """Return the cluster as it is for ledgers of which these bookies lack copies."""
        members = dict(self.members)
        for bookie in bookies:
            if bookie in members and members[bookie].state.is_live:
                members[bookie] = members[bookie]._replace(state=CopyState.INCOMPLETE)
        return ClusterCopies(members, self.lacking)

    def changed_since(self, before: "ClusterCopies") -> frozenset[BookieId]:
        """Return the bookies that are not what they were."""
        known = {**before.members, **self.members}
        return frozenset(bookie for bookie in known if self.of(bookie) != before.of(bookie))


def _by_domain(
    members: Mapping[BookieId, Member],
) -> dict[str, dict[object, tuple[BookieId, ...]]]:
    found: dict[str, dict[object, tuple[BookieId, ...]]] = {level: {} for level in FAILURE_LEVELS}
    for bookie, member in members.items():
        for level in FAILURE_LEVELS if member.accepts_ledgers else ():
            domain = bookie if level == BOOKIE_LEVEL else member.domain(level)
            found[level][domain] = (*found[level].get(domain, ()), bookie)
    return found


def _kind(member: Member) -> CopyKind:
    state = member.state
    return (LIVE if state.is_live else MAY_RETURN if state.may_return else GONE), member.path[0]
