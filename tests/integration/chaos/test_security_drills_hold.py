"""The security drills, with real processes: each expectation is met."""

import asyncio

import pytest

from rhumbline.chaos.lab.drills.__main__ import DRILLS, drill


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in DRILLS if name != "authority-rotated"])
def test_every_expectation_of_a_drill_is_met(name: str) -> None:
    outcomes = asyncio.run(drill(name))  # the rotation has a test of its own
    print(*outcomes, sep="\n")
    assert outcomes
    assert [str(outcome) for outcome in outcomes if not outcome.is_met] == []
