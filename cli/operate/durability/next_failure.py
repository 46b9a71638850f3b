"""Foresees what one more failure would do to the writes of a namespace, from placement alone."""

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

from ....core.log.policy import StreamPolicy
from ....core.protocol.bookie_id import Region
from ....core.protocol.errors import RhumblineError
from ....core.protocol.placement import BookieInfo, in_regions, parse_spread_rule
from ....placement.region_aware import RegionAwarePlacement

_BOOKIES_MAX = 50
"""Number of bookies up to which the loss of each single one, and of each host, is tried."""


def can_place(
    policy: StreamPolicy,
    candidates: Sequence[BookieInfo],
    *,
    random: Random,
    near: Region | None,
) -> str | None:
    """Return why a new segment cannot be placed on these bookies; None if it can."""
    try:
        RegionAwarePlacement().new_ensemble(
            policy.quorum,
            in_regions(candidates, policy.regions),
            random=random,
            near=near,
            rule=parse_spread_rule(policy.spread),
        )
    except RhumblineError as error:
        return str(error)
    return None


def blocking_failures(policy: StreamPolicy, candidates: Sequence[BookieInfo]) -> list[str]:
    """Return each region, host and bookie whose loss alone would make new segments impossible.

    Hosts with one bookie are not named beside it.
    """
    return [
        name
        for name, left in _losses(in_regions(candidates, policy.regions))
        if can_place(policy, left, random=Random(0), near=None) is not None
    ]


def _losses(candidates: Sequence[BookieInfo]) -> Iterator[tuple[str, list[BookieInfo]]]:
    regions = sorted({str(info.region) for info in candidates})
    for region in regions:
        yield f"region {region}", [info for info in candidates if str(info.region) != region]
    if len(candidates) <= _BOOKIES_MAX:
        bookies = Counter(info.path for info in candidates)
        for place in [place for place, count in bookies.items() if count > 1 and place[-1]]:
            left = [info for info in candidates if info.path != place]
            yield f"host {place[-1]} in {place[0]}", left
        for lost in candidates:
            yield f"bookie {lost.bookie}", [info for info in candidates if info is not lost]
