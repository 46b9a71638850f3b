"""A late event loop stops the running time and is remembered for two seconds."""

import pytest

from rhumbline.proxies.probing.loop_lateness import LoopLateness


def test_time_by_which_ticks_are_late_does_not_count() -> None:
    lateness = LoopLateness(10.0)
    for number in range(1, 5):
        lateness.tick(10.0 + 0.025 * number, 0.025)
    assert lateness.running_s == pytest.approx(0.1)
    assert lateness.worst_s == 0
    lateness.tick(11.1, 0.025)  # the process did not run for a second
    assert lateness.running_s == pytest.approx(0.125)
    assert lateness.worst_s == pytest.approx(0.975)


def test_lateness_is_forgotten_after_two_seconds() -> None:
    lateness = LoopLateness(0.0)
    lateness.tick(0.5, 0.025)
    assert lateness.worst_s == pytest.approx(0.475)
    now_s = 0.5
    while now_s < 2.45:
        now_s += 0.025
        lateness.tick(now_s, 0.025)
    assert lateness.worst_s == pytest.approx(0.475)
    while now_s < 2.55:
        now_s += 0.025
        lateness.tick(now_s, 0.025)
    assert lateness.worst_s == 0


def test_lateness_that_happens_again_and_again_is_usual_for_a_minute() -> None:
    """A few stops of the process are not."""
    lateness = LoopLateness(0.0)
    now_s = 0.0
    for late_s in (2.0, 1.0, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.075, 0.05):
        assert lateness.usual_s == 0
        now_s += 5.0
        lateness.tick(now_s - late_s - 0.025, 5.0)
        lateness.tick(now_s, 0.025)
    assert lateness.usual_s == pytest.approx(0.05)
    assert lateness.expected_s == pytest.approx(0.05)
    lateness.tick(now_s + 0.325, 0.025)
    assert lateness.expected_s == pytest.approx(0.3)
    now_s += 0.325
    while now_s < 115:
        now_s += 0.025
        lateness.tick(now_s, 0.025)
    assert lateness.usual_s == 0
