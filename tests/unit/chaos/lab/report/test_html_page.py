"""Reports of runs that passed and failed: HTML, JUnit and the stored outcome."""

import dataclasses
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rhumbline.chaos.lab import scenario_library
from rhumbline.chaos.lab.report.html_page import report_page
from rhumbline.chaos.lab.report.judgement import outcome_of
from rhumbline.chaos.lab.report.junit import junit_xml
from rhumbline.chaos.lab.report.scenario_outcome import (
    Band,
    Invariant,
    ScenarioOutcome,
    load_folder,
    load_outcome,
)
from rhumbline.chaos.lab.sim_run import play_in_sim
from rhumbline.core.protocol.errors import CorruptionError

VOID = {"meta", "line", "rect", "path", "polygon", "br"}


class PageChecker(HTMLParser):
    """Checks that all elements are closed and records those that load external resources."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        names = dict(attrs)
        if tag in {"script", "link", "img", "iframe"} or "src" in names:
            self.fetched.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def passed() -> ScenarioOutcome:
    return outcome_of(play_in_sim(scenario_library.load("region-lost-under-load"), 1))


def failed(passed: ScenarioOutcome) -> ScenarioOutcome:
    broken = Invariant("G1", "an invariant", True, ("<b>append 1.2</b> was not delivered",))
    return dataclasses.replace(passed, invariants=[broken], lost=1, seed=2)


def test_service_levels_match_the_callers_experience(passed: ScenarioOutcome) -> None:
    assert passed.is_good and passed.problems == []
    everywhere = next(level for level in passed.levels if level.region == "*")
    levels = {(level.operation, level.region): level for level in passed.levels}
    east = levels["append", "east"]
    assert everywhere == dataclasses.replace(east, region="*")
    assert 10 <= everywhere.p50_ms <= everywhere.p99_ms <= everywhere.unavailable_ms
    west = levels["deliver", "west"]
    assert 5_000 <= west.unavailable_ms <= 8_000, "as long as the region was down"
    assert [(band.text, band.regions) for band in passed.bands] == [("lose-region west", ("west",))]
    assert sum(passed.series["east"].acked) == pytest.approx(east.count, abs=30), (
        "all but the last slice"
    )


def test_the_page_is_well_formed_and_self_contained(passed: ScenarioOutcome) -> None:
    for outcomes in ([passed], [passed, failed(passed)]):
        page = report_page(outcomes)
        checker = PageChecker()
        checker.feed(page)
        assert checker.open == [] and checker.fetched == []
        assert "http://" not in page and "https://" not in page
    assert "&lt;b&gt;append 1.2&lt;/b&gt; was not delivered" in page
    assert "rhumbline chaos run region-lost-under-load --world sim --seed 2" in page


def test_the_page_begins_with_what_failed_and_speaks_in_words(passed: ScenarioOutcome) -> None:
    page = report_page([failed(passed)])
    head, _, rest = page.partition("<h3>Timeline by region</h3>")
    assert "<li>G1: &lt;b&gt;append 1.2&lt;/b&gt; was not delivered</li>" in head
    assert "p99 from append to acknowledgement" in head
    assert "region lost: west" in rest and "lose-region" not in rest.partition("<pre>")[0]
    assert '<div class="wide">' in rest, "a phone scrolls the timeline"
    assert 'class="problems">' not in report_page([passed])
    limits = [check.wanted for check in passed.checks if check.wanted.endswith((" s", " ms"))]
    assert limits and f'<td class="n">{limits[0]}</td>' in page


def test_a_fault_that_outlasts_the_run_is_drawn(passed: ScenarioOutcome) -> None:
    late = Band(passed.lasted_ms - 10, passed.lasted_ms * 3, "late", ())
    page = report_page([dataclasses.replace(passed, bands=[late])])
    assert "late" in page


def test_junit_reports_failures(passed: ScenarioOutcome) -> None:
    suite = ElementTree.fromstring(junit_xml([passed, failed(passed)]))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == [
        "region-lost-under-load[1]",
        "region-lost-under-load[2]",
    ]
    failure = cases[1].find("failure")
    assert failure is not None and "was not delivered" in str(failure.get("message"))


def test_stored_outcomes_are_read_back(passed: ScenarioOutcome, tmp_path: Path) -> None:
    path = passed.save(tmp_path / "out")
    assert load_folder(tmp_path / "out") == [passed]
    path.write_text(path.read_text().replace('"format": 1', '"format": 7'))
    with pytest.raises(CorruptionError):
        load_outcome(path)
    path.write_text("[1]")
    with pytest.raises(CorruptionError):
        load_outcome(path)
