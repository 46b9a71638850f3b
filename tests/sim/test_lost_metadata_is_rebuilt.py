"""A metadata store that is lost is rebuilt from bookies: nothing that was acknowledged is lost."""

import pytest

from rhumbline.chaos.simulation.plans.metadata.rebuild import rebuild
from rhumbline.chaos.simulation.rebuild_run import RebuildRun
from rhumbline.chaos.simulation.seed_run import run_plan
from rhumbline.chaos.simulation.world.metadata import ledger_id_of
from rhumbline.chaos.simulation.world.sim_world import SimWorld


@pytest.mark.parametrize("number", [1, 2, 3, 54, 56])
def test_every_acknowledged_record_is_readable_after_the_rebuild(number: int) -> None:
    result = run_plan(rebuild(number))
    assert not result.violations
    assert result.acked > 100


@pytest.mark.long
@pytest.mark.parametrize("first", [100, 120])
def test_invariants_hold_in_many_rebuilds(first: int) -> None:
    for seed in range(first, first + 20):
        assert not run_plan(rebuild(seed)).violations, seed


def test_a_rebuilt_store_issues_no_ledger_id_again() -> None:
    plan = rebuild(2)
    with SimWorld(plan.seed, plan.topology) as world:
        run = RebuildRun(world, plan)
        world.run(run.play(), time_limit_s=3600)
        assert run.rebuilt is not None
        filled_ms = min(
            commit.at_ms
            for commit in world.metadata.tree.history
            if commit.path.endswith("/garbage-hold")
        )
        created = {
            ledger_id_of(commit.path)
            for commit in world.metadata.tree.history
            if commit.at_ms > filled_ms and commit.data
        } - {None}
        new = created - run.ledgers_before
        assert new, "the run continued with new segments"
        known = run.ledgers_before
        assert min(id_ for id_ in new if id_ is not None) > max(known), "ids are not reused"
        assert run.check() == []
