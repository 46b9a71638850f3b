"""Finds the bookies that the loss of a region, zone, rack, host or bookie would take. Pure."""

from ...core.protocol.bookie_id import BookieId, bookie_name
from ...core.protocol.errors import InvalidArgumentError
from ...core.protocol.placement import LEVELS
from .copy_states import BOOKIE_LEVEL, FAILURE_LEVELS, ClusterCopies

_REGION = LEVELS[0]


def lost_bookies(cluster: ClusterCopies, text: str) -> frozenset[BookieId]:
    """Return the bookies that are lost with ``text``, e.g. ``rome``, ``rack:rome/r1``, ``host:h7``.

    Without a level it is a region. A label that occurs in several places has to be qualified, as in
    ``rack:rome/r1``; of a bookie the name or the id is given. Raises InvalidArgumentError.
    """
    level, colon, name = text.partition(":")
    if not colon or level not in FAILURE_LEVELS:
        level, name = _REGION, text
    if level == BOOKIE_LEVEL:
        found = {
            bookie: frozenset((bookie,))
            for bookie in cluster.members
            if name in (bookie, bookie_name(bookie))
        }
        known = sorted(cluster.members)
        return _only(found, level, name, [str(bookie) for bookie in known])
    domains = _domains(cluster, level)
    exact = {shown: bookies for shown, bookies in domains.items() if shown == name}
    by_label = {s: bookies for s, bookies in domains.items() if s.rpartition("/")[2] == name}
    return _only(exact or by_label, level, name, sorted(domains))


def _domains(cluster: ClusterCopies, level: str) -> dict[str, frozenset[BookieId]]:
    """Return the bookies by domain of a level, each shown as its labels joined by a slash."""
    depth = LEVELS.index(level)
    found: dict[str, set[BookieId]] = {}
    for bookie, member in cluster.members.items():
        if member.path[depth] is not None:
            shown = "/".join(label for label in member.path[: depth + 1] if label is not None)
            found.setdefault(shown, set()).add(bookie)
    return {shown: frozenset(bookies) for shown, bookies in found.items()}


def _only(
    found: dict[str, frozenset[BookieId]] | dict[BookieId, frozenset[BookieId]],
    level: str,
    name: str,
    known: list[str],
) -> frozenset[BookieId]:
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise InvalidArgumentError(
            f"several places are called {level} {name}: name one of {', '.join(sorted(found))}"
        )
    if level == _REGION:
        raise InvalidArgumentError(
            f"no bookie is in region {name}; the regions are: {', '.join(known) or 'none'}"
        )
    raise InvalidArgumentError(f"unknown {level} {name}; known: {', '.join(known) or 'none'}")
