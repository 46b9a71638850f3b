"""Rebalancing of a modelled cluster after bookies were added; moves are chosen by production."""

import time
from dataclasses import dataclass, field

from ....regions.rebalance.plan import BookieFill, RebalancePlan, SettledCopies
from .cluster_model import ClusterModel


@dataclass(slots=True)
class GrowthResult:
    """The rebalancing after growth, with fills as shares of the disks."""

    added: int
    tolerance_percent: int
    bytes_per_second: int
    before: list[float] = field(default_factory=list)
    """Shares of used bytes by bookie, sorted."""
    after: list[float] = field(default_factory=list)
    moves: int = 0
    bytes: int = 0
    hours: float = 0.0
    """At the rate of the order, since one process makes the moves."""
    plan_cpu_s: float = 0.0
    between_regions: int = 0
    """Moves to another region; production plans none."""


def rebalance(
    model: ClusterModel, count: int, tolerance_percent: int, bytes_per_second: int
) -> GrowthResult:
    """Add bookies to the model and plan one round; the ledgers of the model stay as they are."""
    shape = model.shape
    model.grow(count)
    fills = [
        BookieFill(info, used, shape.disk_bytes)
        for info, used in zip(model.infos, model.used, strict=True)
    ]
    result = GrowthResult(count, tolerance_percent, bytes_per_second)
    result.before = sorted(used / shape.disk_bytes for used in model.used)
    began = time.process_time()
    plan = RebalancePlan(fills, tolerance_percent)
    region = {info.bookie: info.region for info in model.infos}
    for ledger in range(model.ledgers):
        copies = SettledCopies(
            ledger, 0, shape.quorum, tuple(model.infos_of(ledger)), model.sizes[ledger]
        )
        for move in plan.moves_of(copies):
            result.moves += 1
            result.bytes += move.bytes
            result.between_regions += region[move.source] != region[move.target]
    result.plan_cpu_s = time.process_time() - began
    result.after = sorted(used / shape.disk_bytes for used in plan.used_bytes.values())
    result.hours = result.bytes / bytes_per_second / 3600
    return result
