"""The safety argument cites code, scopes, invariants and planted bugs that exist."""

import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from rhumbline.chaos.exploration.scopes import SCOPES
from rhumbline.chaos.planted_bugs.patch import load, names
from rhumbline.tests.support.tidy.source_tree import ROOT

PAGE = (ROOT / "docs/protocol/safety.md").read_text()
SCOPES_PAGE = (ROOT / "docs/reference/scopes.md").read_text()
BUG_ROWS = [
    *(ROOT / "docs/reference/planted-bugs.md").read_text().splitlines(),
    *SCOPES_PAGE.splitlines(),
]
INVARIANTS = re.findall(r'<a id="(\w+)"></a>', (ROOT / "docs/protocol/invariants.md").read_text())
STEPS = dict(section.split("\n", 1) for section in PAGE.split("\n## ")[1:])
WORDS = re.compile(r"`([\w.-]+)`")


def cited(text: str, label: str) -> str:
    """The item of a step's list that has this label; "" if there is none."""
    found = re.search(rf"^- {label}: (.*(?:\n  .*)*)", text, re.MULTILINE)
    return found.group(1) if found else ""


def code_names() -> Iterator[str]:
    yield from re.findall(r"`([\w/]+\.py:[\w.]+)`", PAGE)


@pytest.mark.parametrize("name", sorted(set(code_names())))
def test_cited_code_exists(name: str) -> None:
    path, _, attributes = name.partition(":")
    found: object = import_module("rhumbline." + path.removesuffix(".py").replace("/", "."))
    for attribute in attributes.split("."):
        found = getattr(found, attribute)


@pytest.mark.parametrize("step", STEPS)
def test_each_step_cites_code_invariants_and_bugs(step: str) -> None:
    text = STEPS[step]
    assert cited(text, "Code").count(":") > 0
    invariants = re.findall(r"\[(\w+)\]", cited(text, "Invariants"))
    bugs = WORDS.findall(cited(text, "Planted bugs"))
    assert invariants and set(invariants) <= set(INVARIANTS)
    assert bugs and set(bugs) <= set(names())
    for bug in bugs:
        rows = [line for line in BUG_ROWS if line.startswith(f"| {bug} |")]
        assert rows and not any("**not found**" in line for line in rows)


@pytest.mark.parametrize("step", STEPS)
def test_each_scope_of_a_step_is_exhausted_and_finds_a_bug_of_the_page(step: str) -> None:
    scopes = WORDS.findall(cited(STEPS[step], "Scopes"))
    bugs = WORDS.findall(cited(STEPS[step], "Planted bugs"))
    assert scopes and set(scopes) <= {scope.name for scope in SCOPES}
    for scope in scopes:
        assert row(SCOPES_PAGE, scope).endswith("| yes |"), scope
    assert {load(bug).scope for bug in bugs} & set(scopes), "no scope of the step finds its bugs"


def row(page: str, name: str) -> str:
    return next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
