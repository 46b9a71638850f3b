"""The plan ``late-creations`` creates streams again and again, and only requests arrive late."""

from rhumbline.chaos.simulation.plans.metadata.late_creations import late_creations
from rhumbline.chaos.simulation.seed_run import run_plan


def test_nothing_but_requests_is_late() -> None:
    for seed in range(1, 20):
        assert {fault.kind for fault in late_creations(seed).faults} == {"metadata-late-requests"}


def test_streams_are_created_again_and_nothing_is_violated() -> None:
    result = run_plan(late_creations(1))
    assert result.is_good, result.violations
    assert result.states["incarnations"] > 2, "more streams than names"
    assert not result.states.get("write"), "only the main stream is written"
