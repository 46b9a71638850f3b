"""Every seed with which the simulator found a bug in our code is run again, for ever."""

import tomllib
from pathlib import Path

import pytest

from rhumbline.chaos.simulation.seed_run import run_plan
from rhumbline.chaos.simulation.seed_runner import PLANS

SEEDS = tomllib.loads((Path(__file__).parent / "seeds.toml").read_text())["seed"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("one", SEEDS, ids=lambda one: f"{one['plan']}-{one['seed']}")
def test_seed_that_found_a_bug_finds_none_now(one: dict[str, object]) -> None:
    plan = PLANS[str(one["plan"])](int(str(one["seed"])))
    result = run_plan(plan)
    assert [str(violation) for violation in result.violations] == [], one["bug"]
