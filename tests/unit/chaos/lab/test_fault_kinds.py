"""The guide to rehearsals has a row for every kind of fault, and its scenario is one."""

from rhumbline.chaos.lab import scenario_library
from rhumbline.chaos.lab.fault_kinds import KINDS
from rhumbline.tests.support.tidy.doc_blocks import blocks
from rhumbline.tests.support.tidy.source_tree import ROOT

GUIDE = ROOT / "docs/how-to/rehearse-outages.md"


def test_every_kind_has_a_row() -> None:
    rows = [line for line in GUIDE.read_text().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == list(KINDS)
    for row in rows:
        assert KINDS[row.split("`")[1]].says in row


def test_the_scenario_of_the_guide_is_one() -> None:
    (toml,) = [one for one in blocks(GUIDE.read_text()) if one.language == "toml"]
    assert scenario_library.parse(toml.text, "guide").worlds == ("sim", "wan")
