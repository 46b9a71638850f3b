"""The planner: the guarantees of a quorum on a topology, computed before deployment.

It uses the same ``QuorumView`` as writers and recovery, so the plan and the running system cannot
disagree (rules PLC-23, PLC-24). Latency is a Monte Carlo estimate over round trips and fsync
samples, over all ensembles that placement may choose.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ..core.protocol.errors import IllegalQuorumError
from ..core.protocol.quorum import Quorum, QuorumView
from .layout_rank import Layout
from .layouts import BestLayouts, best_layouts
from .search_budget import OFFLINE_STEPS_MAX
from .topology import Topology

_SAMPLES = 4000
_NEAREST_STEPS_MAX = 12

Numbers = tuple[int, int, int, int]
"""E, WQ, AQ and R as requested; they need not fit together."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The state after the regions in ``lost`` fail at once, before any repair.

    ``data_survives``: every acknowledged entry has a copy left. ``end_decidable``: recovery can
    decide where a ledger ends. ``writer_continues``: the remaining bookies of the ensemble still
    acknowledge entries. ``writes_resume``: writes resume after failover, with new ensembles;
    otherwise ``obstacle`` is the reason.
    """

    lost: tuple[str, ...]
    data_survives: bool
    end_decidable: bool
    writer_continues: bool
    writes_resume: bool
    obstacle: str | None


@dataclass(frozen=True, slots=True)
class Latency:
    """The expected acknowledgement latency of a writer in ``region``, in milliseconds."""

    region: str
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class CountOnlyGuarantee:
    """The guarantee of the same numbers if acknowledgements count only copies, as in BookKeeper.

    ``accepted``: BookKeeper's region-aware placement accepts them (AQ > WQ - floor(WQ/R)).
    ``regions_spanned``: number of regions that any AQ copies span in this layout;
    ``regions_spanned_squeezed``: the same if all copies lie evenly in only R regions.
    """

    accepted: bool
    regions_spanned: int
    regions_spanned_squeezed: int


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """The result of ``plan``. With a ``refusal``, ``nearest`` is the nearest legal quorum."""

    numbers: Numbers
    layout: Layout | None
    refusal: str | None
    nearest: Quorum | None
    fragile: bool
    robust: bool
    counting: CountOnlyGuarantee | None
    losses: tuple[Loss, ...]
    latencies: tuple[Latency, ...]
    wan_bytes_per_byte: float

    def losses_survived(self) -> int:
        """Return the largest k such that any k regions may fail at once.

        No acknowledged entry is lost then, and writes resume.
        """
        bad = [len(loss.lost) for loss in self.losses if not loss.writes_resume]
        sizes = [len(loss.lost) for loss in self.losses]
        return min(bad, default=max(sizes, default=0) + 1) - 1 if self.layout is not None else 0


def plan(topology: Topology, numbers: Numbers, seed: int = 0) -> DeploymentPlan:
    """Compute the guarantees of ``numbers`` = (E, WQ, AQ, R) on ``topology``."""
    try:
        quorum = Quorum(*numbers)
    except IllegalQuorumError as error:
        return _refused(topology, numbers, str(error))
    layouts = _layouts(quorum, topology.counts())
    if not layouts:
        return _refused(topology, numbers, _why_no_layout(topology, quorum))
    view = QuorumView(quorum, layouts[0])
    latencies = []
    wan_bytes = 0.0
    homes = [name for name in sorted(topology.bookies) if topology.bookies[name] > 0]
    for home in homes:
        near = _layouts(quorum, topology.counts(), home)
        wan_bytes += _wan_bytes(quorum, near, home) / len(homes)
        if topology.round_trip_ms is not None:
            latencies.append(_latency(topology, quorum, near, home, Random(seed)))
    return DeploymentPlan(
        numbers,
        layouts[0],
        None,
        None,
        view.is_fragile(),
        view.is_robust(),
        _counting(quorum, view),
        tuple(_losses(topology, quorum, layouts)),
        tuple(latencies),
        wan_bytes,
    )


def _layouts(
    quorum: Quorum, counts: Mapping[str | None, int], near: str | None = None
) -> BestLayouts:
    return best_layouts(quorum, counts, near, OFFLINE_STEPS_MAX)


# --- losses -------------------------------------------------------------------------------------


def after_loss(topology: Topology, view: QuorumView, lost: Sequence[str]) -> Loss:
    """Compute the state after the regions ``lost`` fail at once (rule PLC-23)."""
    lost_mask = view.mask_of_regions(set(lost))
    rest = {name: count for name, count in topology.counts().items() if name not in lost}
    voters = topology.voters()
    majority = len([v for v in voters if v not in lost]) * 2 > len(voters)
    survives = not any(view.could_ack(full & lost_mask) for full in view.full_masks)
    everyone = (1 << view.quorum.ensemble_size) - 1
    placeable = bool(_layouts(view.quorum, rest)) if rest else False
    obstacle = None
    if not survives:
        obstacle = "an entry may have been acknowledged by lost bookies alone"
    elif not majority:
        obstacle = "the metadata store loses its majority"
    elif not placeable:
        obstacle = "no legal ensemble in what is left"
    return Loss(
        lost=tuple(lost),
        data_survives=survives,
        end_decidable=view.is_fencing_complete(everyone & ~lost_mask),
        writer_continues=all(view.is_acked(full & ~lost_mask) for full in view.full_masks),
        writes_resume=obstacle is None,
        obstacle=obstacle,
    )


def _losses(topology: Topology, quorum: Quorum, layouts: Sequence[Layout]) -> Iterator[Loss]:
    """Yield, for each set of lost regions, the worst case over all layouts that may be chosen."""
    names = sorted(topology.bookies)
    views = [QuorumView(quorum, layout) for layout in layouts]
    for size in range(1, len(names)):
        for lost in itertools.combinations(names, size):
            cases = [after_loss(topology, view, lost) for view in views]
            worst = min(cases, key=lambda case: (case.data_survives, case.writes_resume))
            yield Loss(
                lost,
                worst.data_survives,
                all(case.end_decidable for case in cases),
                all(case.writer_continues for case in cases),
                worst.writes_resume,
                worst.obstacle,
            )


def _counting(quorum: Quorum, view: QuorumView) -> CountOnlyGuarantee:
    wq, aq, r = quorum.write_quorum, quorum.ack_quorum, quorum.min_regions
    spanned = []
    for full in view.full_masks:
        members = [view.regions[i] for i in range(quorum.ensemble_size) if full >> i & 1]
        sizes = [members.count(name) for name in dict.fromkeys(members)]
        spanned.append(_regions_for(aq, sizes))
    squeezed = [wq // r + int(i < wq % r) for i in range(r)]
    return CountOnlyGuarantee(aq > wq - wq // r or r == 1, min(spanned), _regions_for(aq, squeezed))


def _regions_for(copies: int, sizes: Sequence[int]) -> int:
    """Return the smallest number of regions that can hold ``copies``: the fullest ones first."""
    for count, size in enumerate(sorted(sizes, reverse=True), 1):
        copies -= size
        if copies <= 0:
            return count
    raise AssertionError("AQ is at most WQ")


# --- costs --------------------------------------------------------------------------------------


def _latency(
    topology: Topology, quorum: Quorum, layouts: Sequence[Layout], home: str, random: Random
) -> Latency:
    """Estimate the latency: members ack after a round trip and an fsync, entries when P holds."""
    views = [QuorumView(quorum, layout) for layout in layouts]
    samples = []
    for entry_id in range(_SAMPLES):
        view = views[entry_id % len(views)]
        arrivals = sorted(
            (
                random.choice(topology.between_ms(home, str(view.regions[index])))
                + random.choice(topology.fsync_ms),
                index,
            )
            for index in quorum.write_set(entry_id // len(views))
        )
        mask = 0
        for at_ms, index in arrivals:
            mask |= 1 << index
            if view.is_acked(mask):
                samples.append(at_ms)
                break
    samples.sort()
    return Latency(home, samples[len(samples) // 2], samples[len(samples) * 99 // 100])


def _wan_bytes(quorum: Quorum, layouts: Sequence[Layout], home: str) -> float:
    """Return the bytes that leave ``home`` per byte that a writer there writes."""
    away = sum(1 for layout in layouts for region in layout if region != home) / len(layouts)
    return away * quorum.write_quorum / quorum.ensemble_size


# --- refusals -----------------------------------------------------------------------------------


def _why_no_layout(topology: Topology, quorum: Quorum) -> str:
    count = sum(topology.bookies.values())
    regions = len([n for n in topology.bookies.values() if n > 0])
    if count < quorum.ensemble_size:
        return f"E={quorum.ensemble_size} needs that many bookies; there are {count}"
    if regions < quorum.min_regions:
        return f"R={quorum.min_regions} needs bookies in that many regions; there are {regions}"
    have = ", ".join(f"{name}: {n}" for name, n in sorted(topology.bookies.items()))
    return (
        f"with bookies in {have}, some write set of {quorum.write_quorum} bookies "
        f"always lies in fewer than R={quorum.min_regions} regions"
    )


def _refused(topology: Topology, numbers: Numbers, why: str) -> DeploymentPlan:
    nearest = _nearest(topology, numbers)
    return DeploymentPlan(numbers, None, why, nearest, False, False, None, (), (), 0.0)


def _nearest(topology: Topology, numbers: Numbers) -> Quorum | None:
    """Return the legal quorum with the fewest steps from ``numbers``, preferably not fragile."""
    for steps in range(_NEAREST_STEPS_MAX + 1):
        accepted = []
        for candidate in _at_distance(numbers, steps):
            try:
                quorum = Quorum(*candidate)
            except IllegalQuorumError:
                continue
            layouts = _layouts(quorum, topology.counts())
            if layouts:
                view = QuorumView(quorum, layouts[0])
                accepted.append(((view.is_fragile(), not view.is_robust(), candidate), quorum))
        if accepted:
            return min(accepted, key=lambda pair: pair[0])[1]
    smallest = Quorum(1, 1, 1, 1)
    return smallest if _layouts(smallest, topology.counts()) else None


def _at_distance(numbers: Numbers, steps: int) -> Iterator[Numbers]:
    """Yield all numbers that differ from ``numbers`` by ``steps`` steps in total."""
    e, wq, aq, r = numbers
    for de in range(-steps, steps + 1):
        for dwq in range(-(steps - abs(de)), steps - abs(de) + 1):
            left = steps - abs(de) - abs(dwq)
            for daq in range(-left, left + 1):
                rest = left - abs(daq)
                for dr in (rest, -rest) if rest else (0,):
                    yield e + de, wq + dwq, aq + daq, r + dr
