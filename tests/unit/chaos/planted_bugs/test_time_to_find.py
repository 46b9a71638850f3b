"""The time to find a bug follows from its scope, or from its seed and the share of its plan."""

import pytest

from rhumbline.chaos.planted_bugs.time_to_find import section, times_to_find
from rhumbline.chaos.simulation.seed_runner import SHARES

PLANTED = """\
| bug | what it does | plan | found by | seeds until found | replay |
|---|---|---|---|---|---|
| quick | a title | `races` | L1, G1 | 2 | `NAME=quick SEED=2` |
| slow | a title | `races` | L1 | 900 | `NAME=slow SEED=900` |
| both | a title | `races` | L1 | 900 | `NAME=both SEED=900` |
| lost | a title | `races` | **not found** | none in 300 |  |
| other | a title | `steady` | L1 | 1 | `NAME=other SEED=1` |
"""
DEFAULT_RUN = """
| bug | found by | in | seeds until found | seconds |
|---|---|---|---|---|
| quick | L1 | seed 3 of `swarm` | 40 | 77 |
| slow | **not found** |  | none in 900 | 1201 |
"""
SCOPES = """\
| write | a writer adds two entries | `abc`, 3/3/2/R2 | 491 | 737 | 0.2 | yes |

## Planted bugs

| both | a title | `write` | R1 | 1,163 | 0.6 |
| unseen | a title | `write` | **not found** | 491 | 0.2 |
"""
SIMULATOR = "| `races` | 7,200 | 50 | 4.0% | 12 |\n"


def test_each_bug_is_found_in_the_quickest_way() -> None:
    found = {one.bug: one for one in times_to_find(PLANTED, SCOPES, SIMULATOR)}
    assert found.keys() == {"quick", "slow", "both", "other"}
    total = sum(SHARES.values())
    assert found["quick"].seconds == pytest.approx(2 * 0.5 * total / SHARES["races"])
    assert (found["both"].way, found["both"].seconds) == ("scope `write`", 0.6)
    assert not found["slow"].is_within_limit
    assert found["other"].seconds is None, "the default run does not have the plan"


def test_the_slowest_are_listed_first_and_marked() -> None:
    text = section(PLANTED, SCOPES, SIMULATOR)
    assert "2 of\n4 bugs" in text
    rows = [line.split(" ")[1] for line in text.splitlines() if line.startswith("| ")][1:]
    assert rows == ["other", "slow", "quick", "both"]
    assert "| other | seed 1 of `steady` | **not known** |  |" in text
    assert "| both | scope `write` | 0.6 |  |" in text


def test_default_runs_that_were_made_are_shown_beside_the_computed_time() -> None:
    found = {one.bug: one for one in times_to_find(PLANTED + DEFAULT_RUN, SCOPES, SIMULATOR)}
    assert found.keys() == {"quick", "slow", "both", "other"}
    assert found["quick"].measured == "77 (seed 3 of `swarm`)"
    assert found["slow"].measured == "not within 1201"
    assert found["both"].measured == ""
    assert found["quick"].row().endswith(" | 77 (seed 3 of `swarm`) |")


def test_without_seeds_per_hour_there_is_no_section() -> None:
    assert section(PLANTED, SCOPES, "") == ""
