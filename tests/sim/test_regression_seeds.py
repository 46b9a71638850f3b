"""Every seed with which the simulator found a bug in our code is run as a regression test."""

import tomllib
from pathlib import Path

import pytest

from rhumbline.chaos.simulation.seed_run import run_plan
from rhumbline.chaos.simulation.seed_runner import PLANS

SEEDS = tomllib.loads((Path(__file__).parent / "seeds.toml").read_text())["seed"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("entry", SEEDS, ids=lambda entry: f"{entry['plan']}-{entry['seed']}")
def test_seed_that_found_a_bug_now_passes(entry: dict[str, object]) -> None:
    plan = PLANS[str(entry["plan"])](int(str(entry["seed"])))
    result = run_plan(plan)
    assert [str(violation) for violation in result.violations] == [], entry["bug"]
