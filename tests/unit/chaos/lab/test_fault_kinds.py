"""The guide to rehearsals documents every kind of fault, and its example scenario is valid."""

from rhumbline.chaos.lab import scenario_library
from rhumbline.chaos.lab.fault_kinds import KINDS
from rhumbline.tests.support.tidy.doc_blocks import blocks
from rhumbline.tests.support.tidy.source_tree import ROOT

GUIDE = ROOT / "docs/how-to/rehearse-outages.md"


def test_the_guide_has_a_row_for_every_kind() -> None:
    _, scenarios = GUIDE.read_text().split("## Write a scenario")
    rows = [line for line in scenarios.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == list(KINDS)
    for row in rows:
        assert KINDS[row.split("`")[1]].description in row


def test_the_example_scenario_of_the_guide_is_valid() -> None:
    (toml,) = [block for block in blocks(GUIDE.read_text()) if block.language == "toml"]
    assert scenario_library.parse(toml.text, "guide").worlds == ("sim", "wan")
