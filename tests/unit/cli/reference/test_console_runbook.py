"""The console shows the runbook's sections, and each alert that it can show has one."""

import json
import re

from rhumbline.cli.reference.console_runbook import CONSOLE_RUNBOOK, RUNBOOK, runbook_document
from rhumbline.tests.support.tidy.source_tree import ROOT

ALERTS = ("cli/operate/server_checks.py", "cli/top/report.py")


def test_sections_are_current_and_complete() -> None:
    page = (ROOT / "docs" / RUNBOOK).read_text()
    assert CONSOLE_RUNBOOK.read_text() == runbook_document(page), "run `make reference`"
    sections = json.loads(CONSOLE_RUNBOOK.read_text())
    assert len(sections) > 20
    for name, parts in sections.items():
        assert list(parts) == ["Meaning", "Confirm", "Do", "Clears"], name


def test_links_become_their_texts() -> None:
    page = "### X\n\n- **Do**: See [the\n  page](a.md#b) with `x`.\n- **Clears**: soon.\n"
    found = json.loads(runbook_document(page))
    assert found == {"X": {"Do": "See the page with `x`.", "Clears": "soon."}}


def test_alerts_name_sections_that_exist() -> None:
    text = "".join((ROOT / path).read_text() for path in ALERTS)
    named = set(re.findall(r'"(Rhumbline[A-Z]\w+)"', text))
    assert len(named) > 5
    assert named <= json.loads(CONSOLE_RUNBOOK.read_text()).keys()
