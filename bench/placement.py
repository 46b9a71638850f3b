"""Placement over racks: write sets that share a rack needlessly, and the time of a choice.

Each topology of ``TOPOLOGIES`` permits an ensemble in which no write set has two copies in one
rack.
"""

import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from ..core.protocol.bookie_id import BookieId, Region
from ..core.protocol.placement import BookieInfo
from ..core.protocol.quorum import Quorum
from ..placement.region_aware import RegionAwarePlacement

TOPOLOGIES = (
    (Quorum(3, 3, 2), (1, 1, 1)),
    (Quorum(6, 3, 2), (3, 3, 3)),
    (Quorum(9, 3, 2), (3, 3, 3)),
    (Quorum(4, 2, 2), (2, 2)),
)
"""Quorums, and the bookies in each rack."""

LARGE = (
    (Quorum(3, 3, 2), 1),
    (Quorum(3, 3, 2, 2), 3),
    (Quorum(9, 3, 2, 2), 3),
    (Quorum(30, 5, 3, 2), 10),
    (Quorum(64, 16, 9, 6), 10),
)
"""Quorums, and the regions over which many bookies are divided, with ten racks in each."""

_RACKS = 10


def measure_shared_racks(seeds: int) -> Iterator[dict[str, Any]]:
    """Yield for each topology how many of ``seeds`` ensembles share a rack in a write set."""
    for quorum, sizes in TOPOLOGIES:
        known = [
            _bookie(f"b{rack}-{number}", "a", rack)
            for rack, size in enumerate(sizes)
            for number in range(size)
        ]
        shared = 0
        for seed in range(seeds):
            policy = RegionAwarePlacement()
            shared += _shares_a_rack(
                quorum, known, policy.new_ensemble(quorum, known, random=Random(seed))
            )
        racks = ", ".join(map(str, sizes))
        yield {
            "quorum": str(quorum),
            "bookies by rack": racks,
            "ensembles": seeds,
            "share a rack": shared,
        }


def measure_choices(bookies: int, repetitions: int) -> Iterator[dict[str, Any]]:
    """Yield the CPU milliseconds of choices: the first one, later ones, and replacements."""
    for quorum, regions in LARGE:
        known = [
            _bookie(f"b{number}", f"r{number % regions}", number // regions % _RACKS)
            for number in range(bookies)
        ]
        by_id = {info.bookie: info for info in known}
        policy = RegionAwarePlacement()
        choices, replacements = [], []
        for seed in range(repetitions + 1):
            began = time.process_time()
            chosen = policy.new_ensemble(quorum, known, random=Random(seed), near=Region("r0"))
            choices.append(1000 * (time.process_time() - began))
            ensemble = [by_id[bookie] for bookie in chosen]
            failed = [seed % quorum.ensemble_size]
            began = time.process_time()
            policy.replace(quorum, ensemble, failed, known, random=Random(seed))
            replacements.append(1000 * (time.process_time() - began))
        yield {
            "quorum": str(quorum),
            "bookies": bookies,
            "regions": regions,
            "first ms": round(choices[0], 1),
            "new ms": _median(choices[1:]),
            "replace ms": _median(replacements[1:]),
            "longest ms": round(max(*choices, *replacements), 1),
        }


def _bookie(name: str, region: str, rack: int) -> BookieInfo:
    return BookieInfo(BookieId(f"{name}@00000001"), Region(region), f"rack-{rack}", 1000)


def _median(values: Sequence[float]) -> float:
    return round(sorted(values)[len(values) // 2], 1)


def _shares_a_rack(quorum: Quorum, known: Sequence[BookieInfo], chosen: Sequence[BookieId]) -> bool:
    racks = {info.bookie: info.rack for info in known}
    return any(
        len({racks[chosen[index]] for index in quorum.write_set(entry)}) < quorum.write_quorum
        for entry in range(quorum.ensemble_size)
    )
