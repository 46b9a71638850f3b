"""Search for one copy to move so that the write sets of an ensemble share fewer domains (PLC-28).

Copies come to share a rack when another one fails, or were written before their locations were
known. A move stays within its region, so it changes nothing that the region rule counts.
"""

from collections.abc import Collection, Iterable, Sequence

from ...core.protocol.placement import (
    LEVELS,
    BookieInfo,
    Path,
    SpreadRule,
    fewest_domains,
    shared_copies,
)
from ...core.protocol.quorum import Quorum

_RACK_DEPTH = LEVELS.index("rack") + 1


def move_to_spread(
    quorum: Quorum,
    ensemble: Sequence[BookieInfo],
    spare: Iterable[BookieInfo],
    rule: SpreadRule,
) -> tuple[int, Path] | None:
    """Return the index to move and its new location; None if no single move helps.

    ``spare`` are bookies that are not members. The move shares the fewest zones, then racks, then
    hosts, strictly fewer than before, so repeated moves end. No level of ``rule`` that is satisfied
    is violated by it. None if the host of a member is not known.
    """
    paths = [info.path for info in ensemble]
    best = shared_copies(quorum, paths)
    if not any(best) or any(info.host is None for info in ensemble):
        return None
    needed = _needed(rule, fewest_domains(quorum, paths))
    found: tuple[int, Path] | None = None
    targets = _targets(paths, dict.fromkeys(info.path for info in spare))
    moved = list(paths)
    for index, path in enumerate(paths):
        for target in targets:
            if target[0] != path[0]:
                continue
            moved[index] = target
            shared = shared_copies(quorum, moved)
            if shared < best and _is_enough(fewest_domains(quorum, moved), needed):
                best, found = shared, (index, target)
        moved[index] = path
    return found


def _targets(paths: Sequence[Path], spare: Collection[Path]) -> list[Path]:
    """Return one location in each rack: the first on a host without a member, if there is one."""
    used = set(paths)
    found: dict[Path, Path] = {}
    for path in spare:
        rack = path[:_RACK_DEPTH]
        if rack not in found or (found[rack] in used and path not in used):
            found[rack] = path
    return list(found.values())


def _needed(rule: SpreadRule, fewest: Sequence[int]) -> dict[int, int]:
    """Return for each level of the rule, by its depth, how many domains a move must keep."""
    return {
        depth: min(rule[level], fewest[depth])
        for depth, level in enumerate(LEVELS)
        if level in rule
    }


def _is_enough(fewest: Sequence[int], needed: dict[int, int]) -> bool:
    return all(fewest[depth] >= count for depth, count in needed.items())
