"""The plan ``idle-writers``: in turn a bookie misses the LAC, one is harmed, and one is cut off."""

from rhumbline.chaos.simulation.plans.applications.idle_writers import idle_writers
from rhumbline.chaos.simulation.seed_run import run_plan


def test_each_round_hits_all_bookies_and_begins_after_the_one_before_it() -> None:
    for seed in range(1, 20):
        *rounds, idle, _, _ = idle_writers(seed).faults
        end_ms = 0
        for first in range(0, len(rounds), 3):
            behind, harmed, away = rounds[first : first + 3]
            assert len({behind.target, harmed.target, away.target}) == 3
            assert harmed.kind in ("kill", "power", "read-error")
            assert end_ms < behind.at_ms < behind.at_ms + behind.lasts_ms < harmed.at_ms
            end_ms = away.at_ms + away.lasts_ms
        assert end_ms < idle.at_ms


def test_two_bookies_are_away_at_the_end_when_the_writer_is_idle() -> None:
    for seed in range(1, 20):
        *_, idle, first, second = idle_writers(seed).faults
        assert idle.kind == "idle" and first.target != second.target
        for missing in (first, second):
            assert idle.at_ms <= missing.at_ms
            assert missing.at_ms + missing.lasts_ms < idle.at_ms + idle.lasts_ms


def test_the_end_is_queried_and_nothing_is_violated() -> None:
    result = run_plan(idle_writers(1))
    assert result.is_good, result.violations
    assert result.states["query_end"] > 10
