"""The page and the plot of a sitting beside other systems."""

from typing import Any
from xml.etree import ElementTree

import pytest

from rhumbline.bench.peers.benchmarks_page import benchmarks_page, benchmarks_plot
from rhumbline.bench.peers.comparison import best_ratio, results_by_workload


def _row(workload: str, peer: str, **figures: float) -> dict[str, Any]:
    return {"w": workload, "peer": peer, "err": 0, **figures}


ROWS = [
    _row("W1-128", "rhumbline-per10", rec_s=900, p50_ms=1.0),
    _row("W1-128", "rhumbline-per10", rec_s=1100, p50_ms=1.0),
    _row("W1-128", "A-per10", rec_s=250, p50_ms=2.0),
    _row("W1-128", "B-nofsync", rec_s=2000, p50_ms=2.0),
    _row("W2-1", "rhumbline-imm", rec_s=10, p50_ms=0.5, p99_ms=1.0),
    _row("W2-1", "C-always", rec_s=10, p50_ms=1.0, p99_ms=0.5),
]
RAW = {"name": "append", "p50_ms": 0.2, "p99_ms": 0.3, "per_second": 5.0}
TURNS = [
    {"system": "A", "repetition": 0, "raw": [{**RAW, "megabytes_per_second": 9}], "rows": ROWS}
]


def test_ratio_of_rate_compares_best_modes() -> None:
    results = results_by_workload(ROWS)["W1-128"]
    durable = best_ratio(results, "rec_s", is_rate=True, only_durable=True)
    of_all = best_ratio(results, "rec_s", is_rate=True, only_durable=False)
    assert durable is not None
    assert of_all is not None
    assert (durable.other.system, durable.factor) == ("A-per10", 4.0)
    assert (of_all.other.system, of_all.factor) == ("B-nofsync", 0.5)


def test_ratio_of_time_is_above_one_when_own_is_shorter() -> None:
    results = results_by_workload(ROWS)["W2-1"]
    for key, factor in (("p50_ms", 2.0), ("p99_ms", 0.5)):
        ratio = best_ratio(results, key, is_rate=False, only_durable=True)
        assert ratio is not None
        assert ratio.factor == pytest.approx(factor)


def test_ratio_is_absent_without_other_system() -> None:
    results = results_by_workload(ROWS[:2])["W1-128"]
    assert best_ratio(results, "rec_s", is_rate=True, only_durable=False) is None


def test_page_shows_median_and_range_of_each_system() -> None:
    page = benchmarks_page(TURNS, {"Date": "2026-11-24"}, "benchmarks.svg")
    assert "| Rhumbline, 10 ms | 1,000 [900..1,100] |" in page
    assert "| Kafka, no fsync | 2,000 |" in page
    assert "**4.00**" in page
    assert "| DistributedLog, 1 | append | 0.200 | 0.300 |" in page


def test_plot_has_a_bar_for_each_figure() -> None:
    picture = ElementTree.fromstring(benchmarks_plot(TURNS))
    texts = [element.text or "" for element in picture.iter() if element.tag.endswith("text")]
    assert texts.count("DistributedLog, 10 ms") == 1
    assert texts.count("JetStream, fsync") == 2
    assert "2,000" in texts


def test_window_without_acknowledgement_is_no_latency() -> None:
    rows = [_row("W1b", "A-imm", p50_ms=0.0), _row("W1b", "rhumbline-imm", p50_ms=2.0)]
    results = results_by_workload(rows)["W1b"]
    assert best_ratio(results, "p50_ms", is_rate=False, only_durable=True) is None
    assert next(r for r in results if r.system == "A-imm").spread("p50_ms") is None
