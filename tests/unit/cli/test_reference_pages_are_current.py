"""The reference pages in docs/ are what the program would write now."""

from rhumbline.cli.reference import COMMANDS_FILE, SETTINGS_FILE, commands_page, settings_page
from rhumbline.tests.support.source_tree import ROOT

HINT = "run `make reference`"


def test_commands() -> None:
    assert (ROOT / "docs/reference" / COMMANDS_FILE).read_text() == commands_page(), HINT


def test_settings() -> None:
    assert (ROOT / "docs/reference" / SETTINGS_FILE).read_text() == settings_page(), HINT
