"""Healing of a modelled cluster after a rack or a region is lost.

Successors are chosen as the repair worker chooses them (rule RPR-8), one ledger at a time. Time is
computed from bytes: each process has the workers and the rate limiter of production, a worker
copies one batch after the other (read from the nearest replica, then stored), and each batch costs
both round trips and its bytes on the process's network interface.
"""

import heapq
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ....core.ledger.ensemble_choice import choose_live_ensemble
from ....core.protocol.bookie_id import BookieId
from ....core.protocol.errors import NotEnoughBookiesError
from ....core.protocol.placement import shared_copies
from ....core.protocol.quorum import QuorumView
from ....core.runtime.primitives.rate_limiter import RateLimiter
from .cluster_model import ClusterModel
from .cluster_shape import REGIONS

_T = TypeVar("_T")

POINTS = 200
"""Points of a course over time."""


@dataclass(slots=True)
class HealResult:
    """The repair of one loss."""

    lost_bookies: int
    ledgers: int = 0
    """Ledgers with a lost member."""
    copies: int = 0
    bytes: int = 0
    unplaced: int = 0
    """Ledgers for which no legal ensemble was found."""
    illegal: int = 0
    """New ensembles that violate the region rule."""
    rack_shared: int = 0
    """New ensembles with two copies in one rack."""
    decisions_per_cpu_s: float = 0.0
    """With the scan of all ledgers by the model."""
    wan_bytes: int = 0
    wan_bytes_least: int = 0
    """The same if each copy were made by a process in the region of its source or its target."""
    busiest_link: str = ""
    busiest_link_bytes: int = 0
    detect_s: float = 0.0
    """Until bookies count as lost, and the audit has read half of all ledgers."""
    copy_s: float = 0.0
    busiest_target_bytes: int = 0
    course: list[tuple[float, float]] = field(default_factory=list)
    """Hours since the loss, and the share of the lost bytes that is copied."""


@dataclass(frozen=True, slots=True)
class _Copy:
    size: int
    target: str
    sources: tuple[str, ...]


def now_or_never(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: _T = ended.value
        return result
    work.close()
    raise AssertionError("the decision waited")


def heal(model: ClusterModel, lost: Sequence[int]) -> HealResult:
    """Repair the loss of some bookies; the model itself does not change."""
    quorum = model.shape.quorum
    result = HealResult(len(lost))
    gone = bytearray(len(model.infos))
    for number in lost:
        gone[number] = 1
    candidates = [info for number, info in enumerate(model.infos) if not gone[number]]
    received: Counter[BookieId] = Counter()
    copiers = _Copiers(model, result)
    began = time.process_time()
    for ledger in range(model.ledgers):
        members = model.members_of(ledger)
        mask = sum(1 << index for index, number in enumerate(members) if gone[number])
        if not mask:
            continue
        result.ledgers += 1
        ensemble = model.infos_of(ledger)
        try:
            after = now_or_never(
                choose_live_ensemble(
                    model.placement, quorum, ensemble, mask, candidates, random=model.random
                )
            )
        except NotEnoughBookiesError:
            result.unplaced += 1
            continue
        there = [model.infos[number] for number in model.numbers_of(after)]
        result.illegal += not QuorumView(quorum, [info.region for info in there]).is_legal()
        result.rack_shared += shared_copies(quorum, [info.path for info in there])[1] > 0
        sources = tuple(
            str(info.region) for index, info in enumerate(ensemble) if not mask >> index & 1
        )
        copies = []
        for index, info in enumerate(there):
            if info.bookie != ensemble[index].bookie:
                received[info.bookie] += model.sizes[ledger]
                copies.append(_Copy(model.sizes[ledger], str(info.region), sources))
        copiers.repair(copies)
    cpu_s = time.process_time() - began
    result.decisions_per_cpu_s = result.ledgers / cpu_s if cpu_s else 0.0
    result.busiest_target_bytes = max(received.values(), default=0)
    copiers.finish()
    return result


class _Copiers:
    """The workers of all repair processes; the first free one takes the next ledger."""

    def __init__(self, model: ClusterModel, result: HealResult) -> None:
        shape = model.shape
        self._shape = shape
        self._result = result
        self._random = model.random
        self._regions = [REGIONS[n % len(REGIONS)] for n in range(shape.repair_processes)]
        self._limiters = [RateLimiter(shape.repair.bytes_per_second) for _ in self._regions]
        self._free = [
            (0.0, process)
            for process in range(len(self._regions))
            for _ in range(shape.repair.worker_count)
        ]
        self._ends: list[tuple[float, int]] = []
        self._links: Counter[tuple[str, str]] = Counter()

    def repair(self, copies: Sequence[_Copy]) -> None:
        """Repair one ledger, one copy after the other."""
        now, process = heapq.heappop(self._free)
        for copy in copies:
            now = self._copied(now, process, copy)
        heapq.heappush(self._free, (now, process))

    def _copied(self, now: float, process: int, copy: _Copy) -> float:
        """Count a copy and return when it ends."""
        shape, result, region = self._shape, self._result, self._regions[process]
        if not copy.sources:
            return now
        source = self._source(region, copy.sources)
        batches = max(1, copy.size // shape.ledger.read_batch_bytes_max)
        trips = shape.round_trip_s(region, source) + shape.round_trip_s(region, copy.target)
        moved_s = batches * trips + 2 * copy.size / shape.nic_bytes_per_second
        limiter = self._limiters[process]
        limited_s = limiter.wait_s(copy.size, now)
        limiter.take(copy.size, now)
        # Nothing waits for bytes before its own: the last batch has passed once its bytes are paid.
        limited_s = max(limited_s, limiter.wait_s(0, now))
        for a, b in ((source, region), (region, copy.target)):
            if a != b:
                self._links[a, b] += copy.size
                result.wan_bytes += copy.size
        result.wan_bytes_least += 0 if copy.target in copy.sources else copy.size
        result.copies += 1
        result.bytes += copy.size
        end = now + max(moved_s, limited_s)
        self._ends.append((end, copy.size))
        return end

    def _source(self, region: str, sources: Sequence[str]) -> str:
        """Return the region of the replica that is read: the nearest one (rule PLC-20)."""
        return min(sources, key=lambda name: self._shape.round_trip_s(region, name))

    def finish(self) -> None:
        """Sum up."""
        result, shape = self._result, self._shape
        result.detect_s = shape.repair.lost_after_ms / 1000 + shape.audit_s() / 2
        self._ends.sort()
        if self._links:
            (a, b), result.busiest_link_bytes = max(
                self._links.items(), key=lambda item: (item[1], item[0])
            )
            result.busiest_link = f"{a} to {b}"
        if not self._ends:
            return
        result.copy_s = self._ends[-1][0]
        result.course = [(0.0, 0.0), (result.detect_s / 3600, 0.0)]
        done, every = 0, max(1, len(self._ends) // POINTS)
        for number, (end, size) in enumerate(self._ends, 1):
            done += size
            if number % every == 0 or number == len(self._ends):
                result.course.append(
                    (round((result.detect_s + end) / 3600, 4), round(done / result.bytes, 5))
                )
