"""Scenario files are checked for types and bounds, and all errors are reported at once."""

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
links = [{ between = ["a", "b"], rtt_ms = 10 }]
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


def errors_of(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        scenario_library.parse(text, "x")
    return str(caught.value)


def test_a_repeated_fault_becomes_single_faults() -> None:
    scenario = scenario_library.parse(GOOD, "x")
    assert [(fault.at_ms, fault.times) for fault in scenario.schedule()] == [
        (100, 1),
        (300, 1),
        (500, 1),
    ]
    assert (scenario.name, scenario.faults_end_ms) == ("x", 550)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "t"', 'titel = "t"', "unknown key titel; did you mean title?"),
        ('title = "t"', "", "title is missing"),
        ("rtt_ms = 10", "rtt_ms = 100000", "100000 is not between 0 and 2000 ms"),
        ("rtt_ms = 10", 'rtt_ms = "far"', "'far' is not a duration"),
        ("at_ms = 100", "at_ms = true", "True is not a duration"),
        ('worlds = ["sim"]', 'worlds = ["moon"]', "'moon' is not one of sim, wan"),
        ('kind = "cut-region"', 'kind = "cut"', "'cut' is not one of lose-region"),
        ('target = "b"', 'target = "c"', "fault cut-region: unknown target 'c'"),
        (
            'writers = [{ region = "a" }]',
            'writers = [{ region = "z" }]',
            "workload.writers: unknown region z",
        ),
        ("writers = [{", "writers = [{ at_ms = 5,", "the first writer must start at 0 ms"),
        ('between = ["a", "b"]', 'between = ["a", "c"]', "not exactly one link between each two"),
        ('regions = ["a", "b"]', 'regions = ["a", "a-b"]', "not ASCII letters and digits only"),
        ('title = "t"', 'title = "t"\nname = "other"', "named after its file"),
        ('title = "t"', "title = t", "invalid TOML"),
        ("times = 3", "times = 3\n[expect]\nlost = 1", "1 is not between 0 and 0"),
    ],
)
def test_errors_are_reported(old: str, new: str, words: str) -> None:
    assert old in GOOD
    assert words in errors_of(GOOD.replace(old, new))


def test_all_errors_are_reported_at_once() -> None:
    bad = GOOD.replace('title = "t"', "titel = 1").replace("rtt_ms = 10", "rtt_ms = -1")
    assert len(errors_of(bad).splitlines()) == 3


def test_a_fault_that_a_world_does_not_support_is_rejected() -> None:
    text = GOOD.replace('["sim"]', '["wan"]').replace("cut-region", "expire-sessions")
    text = text.replace('"b"\nat', '"bookie-b-0"\nat')
    assert "fault expire-sessions: not supported in world wan" in errors_of(text)


@pytest.mark.parametrize("option", ["through_proxies", "queries"])
def test_options_of_real_processes_are_rejected_in_the_simulator(option: str) -> None:
    text = GOOD.replace("[workload]", f"[workload]\n{option} = true\narchives = true")
    assert f"workload.{option}" in errors_of(text)
    scenario_library.parse(text.replace('["sim"]', '["wan"]'), "x")


def test_a_metadata_store_in_a_file_cannot_lose_a_member() -> None:
    text = GOOD.replace('["sim"]', '["wan"]').replace("cut-region", "metadata-member")
    assert "a metadata store in a file has no members" in errors_of(text)


def test_the_library_is_large_and_covers_every_kind_of_fault() -> None:
    scenarios = [scenario_library.load(name) for name in scenario_library.names()]
    assert sum("sim" in scenario.worlds for scenario in scenarios) >= 20
    assert sum("wan" in scenario.worlds for scenario in scenarios) >= 8
    assert {fault.kind for scenario in scenarios for fault in scenario.fault} == set(KINDS)


def test_the_error_for_an_unknown_name_names_the_command() -> None:
    with pytest.raises(ConfigurationError, match="chaos ls"):
        scenario_library.load("no-such-scenario")


def test_a_limit_may_apply_to_one_world_only() -> None:
    strict = '\n[expect]\nacked_min = 1\nunavailable = [{ operation = "append", ms_max = 1%s }]'
    text = (
        GOOD.replace("rtt_ms = 10 }]", "rtt_ms = 10 }]\n[quorum]\nensemble = 2\nwrite = 2") + strict
    )
    everywhere, wan_only = (
        scenario_library.parse(text % "", "x"),
        scenario_library.parse(text.replace('["sim"]', '["sim", "wan"]') % ', world = "wan"', "x"),
    )
    failed = [
        not outcome_of(play_in_sim(scenario, 1)).is_good for scenario in (everywhere, wan_only)
    ]
    assert failed == [True, False]
