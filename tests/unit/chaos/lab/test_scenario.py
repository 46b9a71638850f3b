"""A scenario file is typed and bounded; what is wrong with it is said, all at once."""

import pytest

from rhumbline.chaos.lab import scenario_library
from rhumbline.chaos.lab.fault_kinds import KINDS
from rhumbline.chaos.lab.report.judgement import outcome_of
from rhumbline.chaos.lab.sim_run import play_in_sim
from rhumbline.core.protocol.errors import ConfigurationError

GOOD = """\
title = "t"
about = "a"
worlds = ["sim"]
[topology]
regions = ["a", "b"]
ways = [{ between = ["a", "b"], rtt_ms = 10 }]
[workload]
writers = [{ region = "a" }]
[[fault]]
kind = "cut-region"
target = "b"
at_ms = 100
lasts_ms = 50
times = 3
every_ms = 200
"""


def faults_of(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        scenario_library.parse(text, "x")
    return str(caught.value)


def test_what_is_repeated_becomes_single_faults() -> None:
    scenario = scenario_library.parse(GOOD, "x")
    assert [(one.at_ms, one.times) for one in scenario.schedule()] == [(100, 1), (300, 1), (500, 1)]
    assert (scenario.name, scenario.calm_ms) == ("x", 550)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "t"', 'titel = "t"', "unknown key titel (did you mean title?)"),
        ('title = "t"', "", "title is missing"),
        ("rtt_ms = 10", "rtt_ms = 100000", "100000 is not between 0 and 2000"),
        ("rtt_ms = 10", 'rtt_ms = "10"', "'10' is not a number"),
        ("at_ms = 100", "at_ms = true", "True is not a whole number"),
        ('worlds = ["sim"]', 'worlds = ["moon"]', "'moon' is not one of sim, wan"),
        ('kind = "cut-region"', 'kind = "cut"', "'cut' is not one of lose-region"),
        ('target = "b"', 'target = "c"', "fault cut-region: there is no target 'c'"),
        ('writers = [{ region = "a" }]', 'writers = [{ region = "z" }]', "workload.writers: no"),
        ("writers = [{", "writers = [{ at_ms = 5,", "the first one writes from 0 ms on"),
        ('between = ["a", "b"]', 'between = ["a", "c"]', "exactly one way between each two"),
        ('regions = ["a", "b"]', 'regions = ["a", "a-b"]', "letters and digits only"),
        ('title = "t"', 'title = "t"\nname = "other"', "named by its file"),
        ('title = "t"', "title = t", "not TOML"),
        ("times = 3", "times = 3\n[expect]\nlost = 1", "1 is not between 0 and 0"),
    ],
)
def test_faults_are_named(old: str, new: str, words: str) -> None:
    assert old in GOOD
    assert words in faults_of(GOOD.replace(old, new))


def test_all_faults_are_told_at_once() -> None:
    bad = GOOD.replace('title = "t"', "titel = 1").replace("rtt_ms = 10", "rtt_ms = -1")
    assert len(faults_of(bad).splitlines()) == 3


def test_a_fault_that_a_world_does_not_know_is_refused() -> None:
    text = GOOD.replace('["sim"]', '["wan"]').replace("cut-region", "expire-sessions")
    text = text.replace('"b"\nat', '"bookie-b-0"\nat')
    assert "fault expire-sessions is not known in world wan" in faults_of(text)


@pytest.mark.parametrize("what", ["through_proxies", "queries"])
def test_what_the_simulator_has_not_is_refused_there(what: str) -> None:
    text = GOOD.replace("[workload]", f"[workload]\n{what} = true\narchives = true")
    assert f"workload.{what}" in faults_of(text)
    scenario_library.parse(text.replace('["sim"]', '["wan"]'), "x")


def test_a_file_cannot_lose_a_member() -> None:
    text = GOOD.replace('["sim"]', '["wan"]').replace("cut-region", "metadata-member")
    assert "a metadata store in a file has no members" in faults_of(text)


def test_the_library_is_large_and_covers_every_kind_of_fault() -> None:
    scenarios = [scenario_library.load(name) for name in scenario_library.names()]
    assert sum("sim" in one.worlds for one in scenarios) >= 20
    assert sum("wan" in one.worlds for one in scenarios) >= 8
    assert {fault.kind for one in scenarios for fault in one.fault} == set(KINDS)


def test_an_unknown_name_says_where_to_look() -> None:
    with pytest.raises(ConfigurationError, match="chaos ls"):
        scenario_library.load("no-such-scenario")


def test_a_limit_may_hold_in_one_world_only() -> None:
    strict = '\n[expect]\nacked_min = 1\nunavailable = [{ operation = "append", ms_max = 1%s }]'
    text = (
        GOOD.replace("rtt_ms = 10 }]", "rtt_ms = 10 }]\n[quorum]\nensemble = 2\nwrite = 2") + strict
    )
    everywhere, elsewhere = (
        scenario_library.parse(text % "", "x"),
        scenario_library.parse(text.replace('["sim"]', '["sim", "wan"]') % ', world = "wan"', "x"),
    )
    failed = [not outcome_of(play_in_sim(one, 1)).is_good for one in (everywhere, elsewhere)]
    assert failed == [True, False]
