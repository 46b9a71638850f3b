"""Some seeds of the plan ``mixed``: random subsets of all faults, races and changes."""

import pytest

from rhumbline.chaos.simulation.seed_run import STATES
from rhumbline.chaos.simulation.seed_runner import SeedTotals, run_many

SEEDS = 12


@pytest.fixture(scope="module")
def total(request: pytest.FixtureRequest) -> SeedTotals:
    first = request.config.option.seed
    count = request.config.option.seeds or SEEDS
    return run_many("mixed", range(first, first + count), jobs=2)


@pytest.mark.timeout(400)
def test_every_invariant_holds_in_every_seed(total: SeedTotals) -> None:
    assert [(run.seed, run.violations[:1], run.replay) for run in total.failed] == []


def test_the_seeds_go_through_most_states_and_faults(total: SeedTotals) -> None:
    if total.seeds < SEEDS:
        pytest.skip("too few seeds to expect much")
    assert len(total.states) >= len(STATES) - 1
    assert len(total.faults) >= 20
    assert total.acked > 100 * total.seeds
