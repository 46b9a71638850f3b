"""The bookies that a process can reach, from what it knows about its own paths (rule PLC-30).

A registration only says that a bookie reaches the metadata store. A region that is cut off from one
process may look healthy there, and a process has failures only of the bookies that it uses. So a
failure makes the whole region suspect, until a bookie of that region has responded after it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from ...protocol.bookie_id import BookieId
from ...protocol.placement import BookieInfo

PROBES_PER_REGION = 4
"""Maximum number of bookies of one region that are probed for one choice."""


@dataclass(frozen=True, slots=True)
class KnownPaths:
    """Moments in seconds at which a process learned something about its path to a bookie."""

    failed_at: Mapping[BookieId, float] = field(default_factory=dict)
    """The last failure, of bookies that failed lately."""
    lost_at: Mapping[BookieId, float] = field(default_factory=dict)
    """The loss of the connection, of bookies that were not connected to since."""
    proved_at: Mapping[BookieId, float] = field(default_factory=dict)
    """The last moment at which a bookie is known to have responded."""
    lapsed: Collection[BookieId] = ()
    """Bookies that failed once, but not lately, and have not responded since that time was over."""

    def is_suspect(self, region: str | None, known: Iterable[BookieInfo]) -> bool:
        """Return whether a bookie of the region failed, and none has responded since.

        ``known`` are the bookies of the cluster, with their regions. An unknown region is never
        suspect.
        """
        if region is None:
            return False
        members = [info.bookie for info in known if info.region == region]
        failures = [
            at
            for found in (self.failed_at, self.lost_at)
            for at in map(found.get, members)
            if at is not None
        ]
        proofs = [at for at in map(self.proved_at.get, members) if at is not None]
        return bool(failures) and max(failures) >= max(proofs, default=-1.0)

    def has_returned(self, bookie: BookieId) -> bool:
        """Return whether the bookie failed, is connected, and has responded since."""
        failed_at = self.failed_at.get(bookie, inf)
        return bookie not in self.lost_at and self.proved_at.get(bookie, -1.0) > failed_at


def reachable_first(
    candidates: Sequence[BookieInfo], paths: KnownPaths
) -> list[Sequence[BookieInfo]]:
    """Return the candidates for one choice: each element is tried if the one before has no result.

    First those that neither failed nor lie in a suspect region, then also those that failed and
    have responded since, then all that did not fail themselves, then all.
    """
    suspect = suspect_regions(candidates, paths)

    def is_unbroken(info: BookieInfo) -> bool:
        return info.bookie not in paths.failed_at and info.bookie not in paths.lost_at

    def is_reached(info: BookieInfo) -> bool:
        if info.region in suspect:
            return False
        return is_unbroken(info) or paths.has_returned(info.bookie)

    tiers: list[Sequence[BookieInfo]] = [
        [info for info in candidates if is_reached(info) and is_unbroken(info)],
        [info for info in candidates if is_reached(info)],
        [info for info in candidates if is_reached(info) or is_unbroken(info)],
        candidates,
    ]
    return [
        tier
        for at, tier in enumerate(tiers)
        if at == len(tiers) - 1 or len(tier) < len(tiers[at + 1])
    ]


def suspect_regions(candidates: Sequence[BookieInfo], paths: KnownPaths) -> list[str]:
    """Return the suspect regions among those of the candidates, in their order."""
    regions = dict.fromkeys(info.region for info in candidates if info.region is not None)
    return [region for region in regions if paths.is_suspect(region, candidates)]


def bookies_to_probe(candidates: Sequence[BookieInfo], paths: KnownPaths) -> list[BookieId]:
    """Return the bookies whose response would change ``reachable_first``, a few of each region.

    These are bookies whose connection was lost, those of suspect regions, and those that were
    avoided until now: a process learns nothing about a path that it does not use.
    """
    suspect = suspect_regions(candidates, paths)
    counts: dict[str | None, int] = {}
    found = []
    for info in candidates:
        doubtful = info.bookie in paths.lost_at or info.bookie in paths.lapsed
        if doubtful or info.region in suspect:
            counts[info.region] = counts.get(info.region, 0) + 1
            if counts[info.region] <= PROBES_PER_REGION:
                found.append(info.bookie)
    return found
