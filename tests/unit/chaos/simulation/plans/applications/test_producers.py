"""The plan ``producers``: sets wait in an owner that loses the stream, and are sent again."""

from rhumbline.chaos.simulation.plans.applications.producers import producers
from rhumbline.chaos.simulation.seed_run import run_plan


def test_owners_send_few_entries_at_once_and_write_snapshots_often() -> None:
    for seed in range(1, 20):
        writer = producers(seed).settings.writer
        assert writer.entries_in_flight_max <= 3
        assert writer.producers_snapshot_bytes <= 2_000


def test_sets_are_sent_again_and_nothing_is_violated() -> None:
    result = run_plan(producers(2))
    assert result.is_good, result.violations
    assert result.states["retried sets"] > 3
