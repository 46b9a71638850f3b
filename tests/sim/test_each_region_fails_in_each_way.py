"""Each region is lost, cut off in one or both directions, slow or flapping, under load."""

import pytest

from rhumbline.chaos.lab import scenario_library
from rhumbline.chaos.lab.report.judgement import outcome_of
from rhumbline.chaos.lab.scenario import Scenario
from rhumbline.chaos.lab.sim_run import play_in_sim

REGIONS = ("east", "north", "west")
FAILURES = {
    "lost": 'kind = "lose-region"\nat_ms = 2_000\nlasts_ms = 3_000',
    "cut off": 'kind = "cut-region"\nat_ms = 2_000\nlasts_ms = 3_000',
    "mute": 'kind = "mute-region"\nat_ms = 2_000\nlasts_ms = 3_000',
    "deaf": 'kind = "deafen-region"\nat_ms = 2_000\nlasts_ms = 3_000',
    "slow": 'kind = "slow-region"\nat_ms = 2_000\nlasts_ms = 3_000\nvalue = 200',
    "flapping": 'kind = "cut-region"\nat_ms = 1_000\nlasts_ms = 500\ntimes = 4\nevery_ms = 1_000',
}


def scenario(region: str, failure: str) -> Scenario:
    """Return a scenario; if the writer's own region fails, another region takes over."""
    text = (scenario_library.FOLDER / "region-lost-under-load.toml").read_text()
    head = text[: text.index("[workload]")]
    successor = ', { region = "north", at_ms = 3_000 }' if region == "east" else ""
    return scenario_library.parse(
        f'{head}[workload]\nwriters = [{{ region = "east" }}{successor}]\nlasts_ms = 7_000\n'
        f'[[fault]]\ntarget = "{region}"\n{FAILURES[failure]}\n'
        '[expect]\nunavailable = [{ operation = "append", ms_max = 5_000 }]\n',
        f"{region} {failure}",
    )


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("region", REGIONS)
def test_nothing_is_lost_and_appends_continue(region: str, failure: str, seed: int) -> None:
    outcome = outcome_of(play_in_sim(scenario(region, failure), seed))
    assert outcome.problems == []
    assert outcome.acked > 100 and outcome.lost == 0 and outcome.doubled == 0
