"""Each region is lost, cut off, cut one way, slow, flapping, while another one may write."""

import pytest

from rhumbline.chaos.lab import scenario_library
from rhumbline.chaos.lab.report.judgement import outcome_of
from rhumbline.chaos.lab.scenario import Scenario
from rhumbline.chaos.lab.sim_run import play_in_sim

REGIONS = ("east", "north", "west")
WAYS = {
    "lost": 'kind = "lose-region"\nat_ms = 2_000\nlasts_ms = 3_000',
    "cut off": 'kind = "cut-region"\nat_ms = 2_000\nlasts_ms = 3_000',
    "mute": 'kind = "mute-region"\nat_ms = 2_000\nlasts_ms = 3_000',
    "deaf": 'kind = "deafen-region"\nat_ms = 2_000\nlasts_ms = 3_000',
    "slow": 'kind = "slow-region"\nat_ms = 2_000\nlasts_ms = 3_000\nvalue = 200',
    "flapping": 'kind = "cut-region"\nat_ms = 1_000\nlasts_ms = 500\ntimes = 4\nevery_ms = 1_000',
}


def scenario(region: str, way: str) -> Scenario:
    """Where the writer's own region fails, another one takes over."""
    text = (scenario_library.FOLDER / "region-lost-under-load.toml").read_text()
    head = text[: text.index("[workload]")]
    heir = ', { region = "north", at_ms = 3_000 }' if region == "east" else ""
    return scenario_library.parse(
        f'{head}[workload]\nwriters = [{{ region = "east" }}{heir}]\nlasts_ms = 7_000\n'
        f'[[fault]]\ntarget = "{region}"\n{WAYS[way]}\n'
        '[expect]\nunavailable = [{ operation = "append", ms_max = 5_000 }]\n',
        f"{region} {way}",
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("region", REGIONS)
def test_nothing_is_lost_and_appends_go_on(region: str, way: str, seed: int) -> None:
    outcome = outcome_of(play_in_sim(scenario(region, way), seed))
    assert outcome.faults == []
    assert outcome.acked > 100 and outcome.lost == 0 and outcome.doubled == 0
