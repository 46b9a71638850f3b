"""The planner: what a topology and a quorum promise, before anything is deployed.

Pure arithmetic over the same ``QuorumView`` that writers and recoverers use, so that the plan and
the running system cannot disagree. Latency is a Monte Carlo over round trips and fsync samples.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ..core.protocol.errors import IllegalQuorumError, InvalidArgumentError
from ..core.protocol.quorum import Quorum, QuorumView
from .layouts import Layout, best_layouts

_SAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Topology:
    """Regions with their number of bookies, and round trips between regions in milliseconds.

    ``round_trip_ms[a, b]`` for each unordered pair (either order); inside a region it is
    ``local_round_trip_ms``. ``fsync_ms``: measured samples of one durable write.
    ``metadata_regions``: where the metadata store has a voting member (default: every region).
    """

    bookies: Mapping[str, int]
    round_trip_ms: Mapping[tuple[str, str], float]
    local_round_trip_ms: float = 0.2
    fsync_ms: Sequence[float] = (0.3,)
    metadata_regions: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.bookies or not self.fsync_ms:
            raise InvalidArgumentError("a topology needs a region with bookies and an fsync time")
        for a, b in itertools.combinations(sorted(self.bookies), 2):
            self.between_ms(a, b)

    def between_ms(self, a: str, b: str) -> float:
        """Round trip between two regions. Raises InvalidArgumentError when it is not given."""
        if a == b:
            return self.local_round_trip_ms
        found = self.round_trip_ms.get((a, b), self.round_trip_ms.get((b, a)))
        if found is None:
            raise InvalidArgumentError(f"no round trip given between {a} and {b}")
        return found

    def counts(self) -> dict[str | None, int]:
        """Bookies by region, as the layout search takes them."""
        return {name: count for name, count in self.bookies.items()}

    def voters(self) -> tuple[str, ...]:
        """Regions with a voting member of the metadata store."""
        return (
            tuple(sorted(self.bookies)) if self.metadata_regions is None else self.metadata_regions
        )


@dataclass(frozen=True, slots=True)
class Loss:
    """What holds after the regions in ``lost`` are gone at once, before any repair."""

    lost: tuple[str, ...]
    data_survives: bool
    end_decidable: bool
    writer_continues: bool
    writes_resume: bool


@dataclass(frozen=True, slots=True)
class Latency:
    """Expected acknowledgement latency of a writer in ``region``, in milliseconds."""

    region: str
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer. ``refusal`` says which rule fails; then ``nearest`` is the accepted neighbour."""

    numbers: tuple[int, int, int, int]
    layout: Layout | None
    refusal: str | None
    nearest: Quorum | None
    fragile: bool
    robust: bool
    losses: tuple[Loss, ...]
    latencies: tuple[Latency, ...]
    wan_bytes_per_byte: float


def plan(topology: Topology, numbers: tuple[int, int, int, int], seed: int = 0) -> Plan:
    """What ``numbers`` = (E, WQ, AQ, R) promises on ``topology``."""
    try:
        quorum = Quorum(*numbers)
    except IllegalQuorumError as error:
        return _refused(topology, numbers, str(error))
    layouts = best_layouts(quorum, topology.counts(), None)
    if not layouts:
        return _refused(topology, numbers, _why_no_layout(topology, quorum))
    layout = layouts[0]
    view = QuorumView(quorum, layout)
    return Plan(
        numbers,
        layout,
        None,
        None,
        view.is_fragile(),
        view.is_robust(),
        tuple(_losses(topology, quorum, view)),
        tuple(_latency(topology, quorum, home, Random(seed)) for home in sorted(topology.bookies)),
        _wan_bytes(topology, quorum),
    )


def after_loss(topology: Topology, view: QuorumView, lost: Sequence[str]) -> Loss:
    """What holds when ``lost`` regions go at once (the arithmetic of protocol section 2.9)."""
    gone = view.mask_of_regions(set(lost))
    rest = {name: count for name, count in topology.counts().items() if name not in lost}
    voters = topology.voters()
    majority = len([v for v in voters if v not in lost]) * 2 > len(voters)
    survives = not any(view.could_ack(full & gone) for full in view.full_masks)
    everyone = (1 << view.quorum.ensemble_size) - 1
    placeable = bool(best_layouts(view.quorum, rest, None)) if rest else False
    return Loss(
        lost=tuple(lost),
        data_survives=survives,
        end_decidable=view.is_fencing_complete(everyone & ~gone),
        writer_continues=all(view.is_acked(full & ~gone) for full in view.full_masks),
        writes_resume=survives and majority and placeable,
    )


def _losses(topology: Topology, quorum: Quorum, view: QuorumView) -> list[Loss]:
    names = sorted(topology.bookies)
    return [
        after_loss(topology, view, lost)
        for size in range(1, len(names))
        for lost in itertools.combinations(names, size)
    ]


def _latency(topology: Topology, quorum: Quorum, home: str, random: Random) -> Latency:
    """Each member answers after its round trip and an fsync; the entry is acked when P holds."""
    layout = best_layouts(quorum, topology.counts(), home)[0]
    view = QuorumView(quorum, layout)
    trips = [topology.between_ms(home, str(region)) for region in layout]
    samples = []
    for entry_id in range(_SAMPLES):
        arrivals = sorted(
            (trips[index] + random.choice(topology.fsync_ms), index)
            for index in quorum.write_set(entry_id)
        )
        mask = 0
        for at_ms, index in arrivals:
            mask |= 1 << index
            if view.is_acked(mask):
                samples.append(at_ms)
                break
    samples.sort()
    return Latency(home, samples[len(samples) // 2], samples[len(samples) * 99 // 100])


def _wan_bytes(topology: Topology, quorum: Quorum) -> float:
    """Bytes that cross between regions per byte written, averaged over writers in each region."""
    total = 0.0
    for home in topology.bookies:
        layout = best_layouts(quorum, topology.counts(), home)[0]
        away = sum(1 for region in layout if region != home)
        total += away * quorum.write_quorum / quorum.ensemble_size
    return total / len(topology.bookies)


def _why_no_layout(topology: Topology, quorum: Quorum) -> str:
    count = sum(topology.bookies.values())
    regions = len([n for n in topology.bookies.values() if n > 0])
    if count < quorum.ensemble_size:
        return f"E={quorum.ensemble_size} needs that many bookies; there are {count}"
    if regions < quorum.min_regions:
        return f"R={quorum.min_regions} needs bookies in that many regions; there are {regions}"
    return (
        f"with {dict(topology.bookies)} some write set of {quorum.write_quorum} bookies "
        f"always lies in fewer than R={quorum.min_regions} regions"
    )


def _refused(topology: Topology, numbers: tuple[int, int, int, int], why: str) -> Plan:
    return Plan(numbers, None, why, _nearest(topology, numbers), False, False, (), (), 0.0)


def _nearest(topology: Topology, numbers: tuple[int, int, int, int]) -> Quorum | None:
    """The accepted setting with the fewest steps from ``numbers``; robust ones first."""
    e_max = min(sum(topology.bookies.values()), max(numbers[0], 3) + 2)
    best: tuple[tuple[int, int, tuple[int, ...]], Quorum] | None = None
    for e in range(1, e_max + 1):
        for wq, aq in itertools.combinations_with_replacement(range(1, e + 1), 2):
            for r in range(1, wq + 1):
                quorum = Quorum(e, max(wq, aq), min(wq, aq), min(r, wq, aq))
                layouts = best_layouts(quorum, topology.counts(), None)
                if not layouts:
                    continue
                mine = (
                    quorum.ensemble_size,
                    quorum.write_quorum,
                    quorum.ack_quorum,
                    quorum.min_regions,
                )
                steps = sum(abs(a - b) for a, b in zip(mine, numbers, strict=True))
                key = (steps, int(QuorumView(quorum, layouts[0]).is_fragile()), mine)
                if best is None or key < best[0]:
                    best = (key, quorum)
    return None if best is None else best[1]
