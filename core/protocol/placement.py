"""Placement policies: the interface that chooses the bookies of a ledger (rules PLC-15, PLC-16).

A bookie's location is a path of labels, one for each of ``LEVELS``. A *domain* of a level is a path
up to that level: bookies in one domain may fail together. A copy *shares* a domain if another copy
of its write set lies in it (rule PLC-28). Which regions an acknowledgement needs is decided by the
quorum predicate alone.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from .bookie_id import BookieId, Region
from .errors import InvalidArgumentError
from .quorum import ENSEMBLE_SIZE_MAX, Quorum

LEVELS = ("region", "zone", "rack", "host")
"""The levels of a location, the widest first."""

SPREAD_LEVELS = LEVELS[1:]
"""The levels below the region, at which copies are spread as far as possible."""

Path = tuple[str | None, ...]
"""The label of each level; None if it is unknown."""

SpreadRule = Mapping[str, int]
"""The domains that each write set must lie in, by level (rule PLC-29); without a level: any."""

NO_RULE: SpreadRule = {}


@dataclass(frozen=True, slots=True)
class BookieInfo:
    """A bookie as placement sees it; ``region`` is None if unknown (an Apache bookie)."""

    bookie: BookieId
    region: Region | None = None
    rack: str | None = None
    free_bytes: int = 0
    zone: str | None = None
    host: str | None = None
    share_percent: int = 100
    """The share of the free space that counts; lower for a slow or busy bookie (rule PLC-27)."""

    @property
    def path(self) -> Path:
        """The bookie's location: one label for each of ``LEVELS``."""
        return self.region, self.zone, self.rack, self.host


def in_regions(bookies: Sequence[BookieInfo], allowed: Collection[str]) -> list[BookieInfo]:
    """Return the ``bookies`` that lie in ``allowed`` regions; all of them if it is empty."""
    return [info for info in bookies if not allowed or info.region in allowed]


def is_as_spread(
    quorum: Quorum, members: Sequence[BookieInfo], index: int, target: BookieInfo
) -> bool:
    """Return whether ``target`` may take the place of a member without bringing copies together.

    At each level no write set then has more other members in the domain of ``target`` than in that
    of the current member. So no write set lies in fewer domains than before (rule PLC-28).
    """
    e = quorum.ensemble_size
    for start in range(e if e > quorum.write_quorum else 1):
        window = quorum.write_set(start)
        if index not in window:
            continue
        others = [members[i].path for i in window if i != index]
        for depth in range(1, len(LEVELS) + 1):
            before, after = members[index].path[:depth], target.path[:depth]
            if _count_in(others, after) > _count_in(others, before):
                return False
    return True


def _count_in(paths: Sequence[Path], domain: Path) -> int:
    return sum(path[: len(domain)] == domain for path in paths)


class PlacementPolicy(Protocol):
    """A strategy that chooses ensembles; NotEnoughBookiesError names the rule that fails."""

    def new_ensemble(
        self,
        quorum: Quorum,
        candidates: Sequence[BookieInfo],
        *,
        random: Random,
        near: Region | None = None,
        rule: SpreadRule = NO_RULE,
    ) -> tuple[BookieId, ...]:
        """Choose E distinct bookies that are legal for ``quorum``: P holds for every write set.

        ``near`` is the writer's region, preferred for latency. Every write set obeys ``rule``.
        Raises NotEnoughBookiesError.
        """
        ...

    def replace(
        self,
        quorum: Quorum,
        ensemble: Sequence[BookieInfo],
        failed: Collection[int],
        candidates: Sequence[BookieInfo],
        *,
        random: Random,
        rule: SpreadRule = NO_RULE,
    ) -> tuple[BookieId, ...]:
        """Choose other bookies for the ``failed`` indices; all others keep their index.

        The new ensemble is legal too: NotEnoughBookiesError is raised rather than the rule
        weakened. ``candidates`` may contain members, which are not chosen again.
        """
        ...


def shared_copies(quorum: Quorum, paths: Sequence[Path]) -> tuple[int, ...]:
    """Return for each of ``SPREAD_LEVELS`` how many copies share a domain; smaller is better.

    A write set of WQ copies in d domains counts WQ - d; the sum is over all E write sets, which are
    equal if E = WQ.
    """
    return tuple(
        _shared(quorum, [path[: depth + 2] for path in paths])
        for depth in range(len(SPREAD_LEVELS))
    )


def _shared(quorum: Quorum, domains: Sequence[Path]) -> int:
    """Sum over the domains how far the write sets of neighbouring members overlap.

    Two members of a domain that follow each other around the cycle, ``gap`` indices apart, are in
    WQ - gap write sets together.
    """
    e, wq = quorum.ensemble_size, quorum.write_quorum
    first: dict[Path, int] = {}
    last: dict[Path, int] = {}
    shared = 0
    for index, domain in enumerate(domains):
        if domain in last:
            shared += max(0, wq - (index - last[domain]))
        else:
            first[domain] = index
        last[domain] = index
    return shared + sum(max(0, wq - (e - last[domain] + first[domain])) for domain in first)


def fewest_domains(quorum: Quorum, paths: Sequence[Path]) -> tuple[int, ...]:
    """Return for each of ``LEVELS`` the number of domains of the write set that has the fewest."""
    e, wq = quorum.ensemble_size, quorum.write_quorum
    cycle = (*paths, *paths)
    return tuple(
        min(
            len({path[: depth + 1] for path in cycle[start : start + wq]})
            for start in range(e if e > wq else 1)
        )
        for depth in range(len(LEVELS))
    )


def crowded_levels(
    quorum: Quorum, members: Sequence[Path], known: Iterable[Path]
) -> tuple[str, ...]:
    """Return the ``SPREAD_LEVELS`` at which a write set lies in fewer domains than it could.

    It could lie in WQ domains, or in all that the ``known`` bookies and the members are in. A level
    at which no bookie has a label is not used, and never crowded.
    """
    return levels_below(quorum, members, domains_by_level({*members, *known}))


def levels_below(
    quorum: Quorum, members: Sequence[Path], domains: Mapping[str, int]
) -> tuple[str, ...]:
    """Return the levels at which a write set lies in fewer domains than WQ, or than there are.

    ``domains`` is the number of domains by level, as ``domains_by_level`` returns it.
    """
    fewest = fewest_domains(quorum, members)
    return tuple(
        level
        for level, count in domains.items()
        if fewest[LEVELS.index(level)] < min(quorum.write_quorum, count)
    )


def domains_by_level(paths: Collection[Path]) -> dict[str, int]:
    """Return the number of domains at each of ``SPREAD_LEVELS``.

    A level at which no bookie has a label is not used, and left out.
    """
    return {
        level: len({path[: depth + 1] for path in paths})
        for depth, level in enumerate(LEVELS)
        if level in SPREAD_LEVELS and any(path[depth] is not None for path in paths)
    }


def parse_spread_rule(parts: Iterable[str]) -> SpreadRule:
    """Return the rule of parts like ``rack:3``. Raises InvalidArgumentError."""
    found: dict[str, int] = {}
    for part in parts:
        level, _, number = part.partition(":")
        if level not in LEVELS or not (number.isascii() and number.isdecimal()) or level in found:
            raise InvalidArgumentError(
                f"bad spread {part[:80]!r}: write each level once, as in region:2,rack:3; "
                f"the levels are {', '.join(LEVELS)}"
            )
        if not 1 <= int(number) <= ENSEMBLE_SIZE_MAX:
            raise InvalidArgumentError(
                f"bad spread {part[:80]!r}: 1 to {ENSEMBLE_SIZE_MAX} domains"
            )
        found[level] = int(number)
    return found


def shortage(rule: SpreadRule, members: Iterable[Path]) -> str | None:
    """Return the widest level at which one write set lies in too few domains; None if none is.

    An unknown label counts for no domain (as rule PLC-7 does for regions).
    """
    paths = list(members)
    for depth, level in enumerate(LEVELS):
        if level in rule:
            domains = {path[: depth + 1] for path in paths if path[depth] is not None}
            if len(domains) < rule[level]:
                return level
    return None
