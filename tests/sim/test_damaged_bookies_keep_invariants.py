"""Some seeds of the plan ``damage``: any file of a bookie is damaged, lost or restored.

Some of them used to violate L22: a restored directory denied entries that it had confirmed.
"""

import pytest

from rhumbline.chaos.simulation.seed_run import RunResult
from rhumbline.tests.support.simulation.plan_seeds import play, violations

SEEDS = 8


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> list[RunResult]:
    return play("damage", request, SEEDS)


@pytest.mark.timeout(300)
def test_every_invariant_holds_whatever_file_is_damaged(results: list[RunResult]) -> None:
    assert violations(results) == {}


def test_seeds_damage_files_in_every_way(results: list[RunResult]) -> None:
    if len(results) < SEEDS:
        pytest.skip("too few seeds to expect much")
    kinds = {kind for result in results for kind in result.faults}
    assert {"rot-file", "rot-index", "truncate-file", "zero-page", "lose-file"} <= kinds
    assert {"back-up", "restore"} <= kinds
