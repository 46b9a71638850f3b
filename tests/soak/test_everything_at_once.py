"""Everything runs at once for a while: nothing is lost and no process fails.

`make soak MINUTES=60` runs it for an hour, and also requires that everything is flat.
"""

from pathlib import Path

import pytest

from rhumbline.bench.soak.flatness import DESCRIPTORS, DISK, MEMORY, P50, P99
from rhumbline.bench.soak.soak_run import SoakRun

SECONDS = 105.0


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 900)
def test_nothing_is_lost_when_everything_runs_at_once(tmp_path: Path) -> None:
    report = SoakRun(tmp_path, SECONDS, print).run()
    print("\n".join(report.lines()))
    assert not report.faults
    assert {name: counts["lost"] for name, counts in report.counts.items()} == dict.fromkeys(
        ("direct", "proxied", "topic", "churn"), 0
    )
    assert all(counts["read"] >= counts["appended"] > 0 for counts in report.counts.values())
    assert len(report.kills) == 1
    assert {MEMORY, DESCRIPTORS, DISK, P50, P99} < set(report.samples)
    assert len(report.samples[MEMORY]) == 13, "every process is sampled"
