"""The planner's predictions for losses of regions agree with simulated runs."""

import pytest

from rhumbline.chaos.simulation.region_losses import GRID, Case, Setting, cases_of, page, simulate
from rhumbline.core.protocol.quorum import Quorum

SHORT = (
    Setting(2, Quorum(2, 2, 2, 2)),
    Setting(3, Quorum(3, 3, 2, 2)),
    Setting(3, Quorum(3, 3, 2, 1)),
    Setting(3, Quorum(5, 5, 3, 2)),
)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [simulate(setting, lost) for setting in SHORT for lost in cases_of(setting)]


@pytest.mark.timeout(120)
def test_prediction_and_simulation_agree_for_every_set_of_lost_regions(cases: list[Case]) -> None:
    assert [case for case in cases if not case.agrees] == []


def test_simulated_losses_lose_data_where_the_planner_predicts_it(cases: list[Case]) -> None:
    outcomes = {(case.setting.quorum, len(case.lost)): case.simulated for case in cases}
    assert outcomes[Quorum(3, 3, 2, 2), 1] == (True, True, True)
    assert outcomes[Quorum(3, 3, 2, 2), 2] == (False, False, False)
    assert outcomes[Quorum(2, 2, 2, 2), 1] == (True, False, False)
    assert not all(case.simulated.writes_resume for case in cases if len(case.lost) == 1)


def test_the_whole_grid_has_every_set_of_regions_and_a_row_for_each(cases: list[Case]) -> None:
    assert set(SHORT) <= set(GRID)
    assert sum(len(cases_of(setting)) for setting in GRID) == 194
    assert page(cases).count("\n| ") == len(cases) + 1
