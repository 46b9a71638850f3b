"""The ledgers of a modelled cluster: every ensemble is chosen by production's placement.

Members and sizes are kept in arrays, about 14 bytes for each ledger.
"""

import time
from array import array
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from ....core.protocol.bookie_id import BookieId
from ....core.protocol.placement import BookieInfo
from ....placement.region_aware import RegionAwarePlacement
from .cluster_shape import ClusterShape


class ClusterModel:
    """Bookies and ledgers. A bookie is known by its number, which is its place in ``infos``."""

    def __init__(self, shape: ClusterShape, seed: int = 1) -> None:
        self.shape = shape
        self.random = Random(f"{seed} capacity")
        self.placement = RegionAwarePlacement()
        self.infos = shape.known_bookies(shape.bookies)
        self.numbers = {info.bookie: number for number, info in enumerate(self.infos)}
        self.members = array("H")
        """Bookie numbers, E for each ledger."""
        self.sizes = array("Q")
        """Bytes of each ledger."""
        self.used = [0] * len(self.infos)
        """Bytes of each bookie."""
        self.fill_cpu_s = 0.0
        """CPU time of all choices, with the bookkeeping of the model."""
        self.refreshes = 0
        """Changes of the candidates by newly registered free space."""

    @property
    def ledgers(self) -> int:
        """The number of ledgers."""
        return len(self.sizes)

    def fill(self) -> None:
        """Choose the ensemble of one ledger for each stream, from a random region each."""
        shape, random = self.shape, self.random
        regions = sorted({info.region for info in self.infos if info.region})
        candidates = list(self.infos)
        registered = [0] * len(self.infos)
        step = shape.disk_bytes * shape.free_space_step
        began = time.process_time()
        for _ in range(shape.streams):
            size = int(random.expovariate(1 / shape.mean_ledger_bytes)) + 1
            near = random.choice(regions)
            chosen = self.placement.new_ensemble(shape.quorum, candidates, random=random, near=near)
            self.sizes.append(size)
            changed = False
            for bookie in chosen:
                number = self.numbers[bookie]
                self.members.append(number)
                self.used[number] += size
                if self.used[number] - registered[number] >= step:
                    registered[number] = self.used[number]
                    free = max(0, shape.disk_bytes - self.used[number])
                    candidates[number] = replace(self.infos[number], free_bytes=free)
                    changed = True
            self.refreshes += changed
        self.fill_cpu_s = time.process_time() - began
        self.infos = [
            replace(info, free_bytes=max(0, shape.disk_bytes - used))
            for info, used in zip(self.infos, self.used, strict=True)
        ]

    def grow(self, count: int) -> None:
        """Add empty bookies."""
        added = self.shape.known_bookies(count, len(self.infos))
        for info in added:
            self.numbers[info.bookie] = len(self.numbers)
        self.infos += added
        self.used += [0] * count

    def members_of(self, ledger: int) -> tuple[int, ...]:
        """Return the bookie numbers of a ledger's ensemble."""
        e = self.shape.quorum.ensemble_size
        return tuple(self.members[ledger * e : (ledger + 1) * e])

    def infos_of(self, ledger: int) -> list[BookieInfo]:
        """Return the bookies of a ledger's ensemble."""
        return [self.infos[number] for number in self.members_of(ledger)]

    def numbers_of(self, bookies: Sequence[BookieId]) -> list[int]:
        """Return the numbers of bookies."""
        return [self.numbers[bookie] for bookie in bookies]
