"""The table of seeds per hour replaces the one between the marks of a page."""

from pathlib import Path

import pytest

from rhumbline.chaos.simulation.seed_runner import PlanTotals, SeedTotals
from rhumbline.chaos.simulation.seeds_table import BEGIN, END, write_table

TOTALS = SeedTotals(
    plans={
        "swarm": PlanTotals(seeds=30, seconds=15.0, virtual_s=600.0, new_situations=1200),
        "races": PlanTotals(seeds=10, seconds=5.0, virtual_s=100.0),
    }
)


def test_the_table_replaces_what_lies_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_table(page, TOTALS)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n\n| plan |")
    assert "| `races` | 7,200 | 20 | 25.0% | 0 |\n| `swarm` | 7,200 | 40 | 75.0% | 1,200 |" in text
    assert text.endswith(f"|\n\n{END}\nafter\n") and "old" not in text


def test_a_page_without_marks_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(BEGIN)
    with pytest.raises(ValueError, match="has no marks"):
        write_table(page, TOTALS)
