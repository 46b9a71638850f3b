"""A whole run at a small size gives the sections of the page, and its plots."""

from pathlib import Path

import pytest

from rhumbline.chaos.simulation.capacity.__main__ import violations
from rhumbline.chaos.simulation.capacity.capacity_page import BEGIN, END, write_section
from rhumbline.chaos.simulation.capacity.capacity_plot import plots
from rhumbline.chaos.simulation.capacity.capacity_run import Results, run_model
from rhumbline.chaos.simulation.capacity.cluster_shape import ClusterShape


@pytest.fixture(scope="module")
def results() -> Results:
    shape = ClusterShape(bookies=100, racks=2, streams=300, repair_processes=5)
    counts = {"get": 1.0, "put": 2.0}
    found = run_model(shape, 1, lambda text: None)
    found["metadata"] = {
        "bookies": 100,
        "ledgers": 10,
        "created": counts,
        "audited": counts,
        "names_listed_by_creation": 100.0,
        "repaired": {"1": counts},
    }
    return found


def test_the_results_hold_the_losses_and_the_growth(results: Results) -> None:
    assert violations(results) == []
    assert results["placement"]["choices"] == 300
    assert results["rack"]["lost_bookies"] == 10
    assert results["region"]["lost_bookies"] == 20
    assert 0 < results["rack"]["bytes"] < results["region"]["bytes"]
    assert results["growth"]["added"] == 10


def test_broken_rules_are_reported(results: Results) -> None:
    bad = {**results, "rack": {**results["rack"], "illegal": 2}}
    assert violations(bad) == ["2 illegal ensembles after a lost rack"]


def test_only_the_results_of_the_page_are_replaced(results: Results, tmp_path: Path) -> None:
    page = tmp_path / "capacity.md"
    page.write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\nThe end.\n")
    write_section(page, results)
    write_section(page, results)
    text = page.read_text()
    assert text.startswith("# Title\n") and text.endswith("\n\nThe end.\n")
    assert "old" not in text
    assert "| lost bookies | 10 | 20 |" in text
    assert "| one ledger audited | 1 | 0 | 0 | 2 | 0 | 0 |" in text
    page.write_text("no marks")
    with pytest.raises(ValueError, match="no marks"):
        write_section(page, results)


def test_the_plots_draw_every_curve(results: Results) -> None:
    drawn = plots(results)
    assert list(drawn) == ["capacity-healing.svg", "capacity-fill.svg"]
    for drawing in drawn.values():
        assert drawing.startswith("<svg") and drawing.endswith("</svg>\n")
        assert drawing.count("<polyline") == 2
