"""Runs the model of a large cluster and returns its results as values for JSON."""

import resource
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ....core.protocol.placement import shared_copies
from ....regions.ledger_scan import AT_ONCE
from .cluster_model import ClusterModel
from .cluster_shape import REGIONS, ClusterShape
from .growth import rebalance
from .healing import heal

GROWTH_PERCENT = 10
TOLERANCE_PERCENT = 10
REBALANCE_BYTES_PER_SECOND = 20 * 2**20
"""The default rate of `rhumbline rebalance start`."""

Results = dict[str, Any]


def run_model(shape: ClusterShape, seed: int, note: Callable[[str], None]) -> Results:
    """Fill a cluster, lose a rack and a region of it, and add bookies."""
    began = time.process_time()
    model = ClusterModel(shape, seed)
    note(f"placing {shape.streams:,} ledgers on {shape.bookies:,} bookies")
    model.fill()
    results: Results = {"seed": seed, "shape": _shape(shape), "placement": _placement(model)}
    first = [info for info in model.infos if info.region == REGIONS[0]]
    rack = first[0].rack
    for name, lost in (
        ("rack", [info for info in first if info.rack == rack]),
        ("region", first),
    ):
        note(f"losing a {name}: {len(lost)} bookies")
        results[name] = asdict(heal(model, model.numbers_of([info.bookie for info in lost])))
    count = max(1, shape.bookies * GROWTH_PERCENT // 100)
    note(f"adding {count} bookies")
    grown = rebalance(model, count, TOLERANCE_PERCENT, REBALANCE_BYTES_PER_SECOND)
    results["growth"] = asdict(grown)
    results["run"] = {
        "cpu_s": round(time.process_time() - began),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    return results


def _shape(shape: ClusterShape) -> Results:
    return {
        "bookies": shape.bookies,
        "regions": len(REGIONS),
        "racks": shape.racks,
        "streams": shape.streams,
        "quorum": str(shape.quorum),
        "mean_ledger_bytes": shape.mean_ledger_bytes,
        "disk_bytes": shape.disk_bytes,
        "repair_processes": shape.repair_processes,
        "repair_bytes_per_second": shape.repair.bytes_per_second,
        "repair_workers": shape.repair.worker_count,
        "metadata_read_ms": shape.metadata_read_ms,
        "audit_interval_ms": shape.repair.audit_interval_ms,
        "audit_s": shape.audit_s(),
        "audit_reads_at_once": AT_ONCE,
    }


def _placement(model: ClusterModel) -> Results:
    quorum = model.shape.quorum
    copies = [0] * len(model.infos)
    for number in model.members:
        copies[number] += 1
    rack_shared = three = 0
    for ledger in range(model.ledgers):
        infos = model.infos_of(ledger)
        three += len({info.region for info in infos}) == quorum.write_quorum
        rack_shared += shared_copies(quorum, [info.path for info in infos])[1] > 0
    return {
        "choices": model.ledgers,
        "choices_per_cpu_s": round(model.ledgers / model.fill_cpu_s),
        "inexact": model.placement.inexact_searches,
        "rack_shared": rack_shared,
        "in_most_regions": three,
        "copies": _spread(copies),
        "bytes": _spread(model.used),
    }


def _spread(values: list[int]) -> Results:
    mean = sum(values) / len(values)
    deviation = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    return {
        "mean": round(mean),
        "least": min(values),
        "most": max(values),
        "deviation_percent": round(100 * deviation / mean, 2),
    }
