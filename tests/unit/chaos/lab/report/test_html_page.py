"""The report, its JUnit form and the stored outcome, of runs that held and failed."""

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


class Balance(HTMLParser):
    """Every element that is opened is closed, and nothing is fetched from elsewhere."""

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
def held() -> ScenarioOutcome:
    return outcome_of(play_in_sim(scenario_library.load("region-lost-under-load"), 1))


def failed(held: ScenarioOutcome) -> ScenarioOutcome:
    broken = Invariant("G1", "a promise", True, ("<b>append 1.2</b> was not delivered",))
    return dataclasses.replace(held, invariants=[broken], lost=1, seed=2)


def test_levels_follow_from_what_callers_saw(held: ScenarioOutcome) -> None:
    assert held.is_good and held.faults == []
    everybody = next(one for one in held.levels if one.region == "*")
    east = next(one for one in held.levels if (one.operation, one.region) == ("append", "east"))
    assert everybody == dataclasses.replace(east, region="*")
    assert 10 <= everybody.p50_ms <= everybody.p99_ms <= everybody.unavailable_ms
    west = next(one for one in held.levels if (one.operation, one.region) == ("deliver", "west"))
    assert 5_000 <= west.unavailable_ms <= 8_000, "for as long as the region was lost"
    assert [(band.text, band.regions) for band in held.bands] == [("lose-region west", ("west",))]
    assert sum(held.series["east"].acked) == pytest.approx(east.count, abs=30), (
        "all but the last slice"
    )


def test_the_page_is_whole_and_needs_nothing_else(held: ScenarioOutcome) -> None:
    for outcomes in ([held], [held, failed(held)]):
        page = report_page(outcomes)
        balance = Balance()
        balance.feed(page)
        assert balance.open == [] and balance.fetched == []
        assert "http://" not in page and "https://" not in page
    assert "&lt;b&gt;append 1.2&lt;/b&gt; was not delivered" in page
    assert "rhumbline chaos run region-lost-under-load --world sim --seed 2" in page


def test_faults_that_are_not_over_stay_in_the_picture(held: ScenarioOutcome) -> None:
    late = Band(held.lasted_ms - 10, held.lasted_ms * 3, "late", ())
    page = report_page([dataclasses.replace(held, bands=[late])])
    assert "late" in page


def test_junit_tells_failures(held: ScenarioOutcome) -> None:
    suite = ElementTree.fromstring(junit_xml([held, failed(held)]))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == [
        "region-lost-under-load[1]",
        "region-lost-under-load[2]",
    ]
    failure = cases[1].find("failure")
    assert failure is not None and "was not delivered" in str(failure.get("message"))


def test_outcomes_are_stored_and_read_again(held: ScenarioOutcome, tmp_path: Path) -> None:
    path = held.save(tmp_path / "out")
    assert load_folder(tmp_path / "out") == [held]
    path.write_text(path.read_text().replace('"format": 1', '"format": 7'))
    with pytest.raises(CorruptionError):
        load_outcome(path)
    path.write_text("[1]")
    with pytest.raises(CorruptionError):
        load_outcome(path)
