"""What the run with a region that is cut off reports as wrong."""

from typing import Any

import pytest

from rhumbline.chaos.lab.partition.cut_off_region import CutOffResult

CUT_S, HEALED_S, END_S = 10, 30, 40


def read(began: float, last: int, age_ms: int | None = None) -> dict[str, Any]:
    return {
        "region": "west", "began": began, "ended": began + 1,
        "first": 0, "last": last, "count": last + 1, "age_ms": age_ms,
    }  # fmt: skip


def result() -> CutOffResult:
    """Return a run without a fault: a record each second in both namespaces."""
    acked = [(float(second), second) for second in range(END_S)]
    last = END_S - 1
    return CutOffResult(
        cut_s=CUT_S + 0.5,
        healed_s=HEALED_S + 0.5,
        acked=acked,
        followed=[at for at in acked if at[0] <= CUT_S] + [(HEALED_S + 1.0, last)],
        reads=[read(20, CUT_S, 5_000), read(END_S, last)],
        local_acked=acked,
        local_reads=[read(20, 20), read(END_S, last)],
    )


def test_a_run_without_faults_is_reported_as_such() -> None:
    assert result().faults() == []
    assert result().local_gap_s() == 1.0


def test_a_namespace_of_the_region_that_is_not_written_is_a_fault() -> None:
    run = result()
    run.local_acked = [at for at in run.local_acked if not 12 < at[0] < 25]
    assert run.faults() == ["nothing was acknowledged in west for 13.0 s of the cut"]
    run.local_acked = [at for at in run.local_acked if at[0] < 20]
    assert "nothing was acknowledged in west for 18.5 s" in run.faults()[0]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"last": 5, "count": 6}, "got 5 of 19 at 20.0 s"),
        ({"count": 7}, "has a gap"),
        ({"first": 1}, "has a gap"),
        ({"age_ms": 3}, "reported that its metadata may be old"),
    ],
)
def test_a_reader_that_misses_records_of_the_region_is_a_fault(
    changed: dict[str, Any], fault: str
) -> None:
    run = result()
    run.local_reads[0] |= changed
    (found,) = run.faults()
    assert fault in found


def test_readers_of_the_region_are_needed_during_and_after_the_cut() -> None:
    run = result()
    run.local_reads = []
    assert [fault.split()[-3:] for fault in run.faults()] == [
        ["during", "the", "cut"], ["after", "the", "cut"]
    ]  # fmt: skip
