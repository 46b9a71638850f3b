"""A planted bug is found by its scope, and its schedule is told like a simulated run."""

from rhumbline.chaos.exploration.scope_run import run_with_bug
from rhumbline.chaos.exploration.scopes import SCOPES
from rhumbline.chaos.planted_bugs.patch import load, names


def test_an_acknowledgement_without_p_is_found_and_told() -> None:
    bug = load("ack-without-p")
    found = run_with_bug(bug, bug.scope, 60)
    assert found.invariant == "R1"
    assert "VIOLATED R1: for writer entry" in found.story[-1]
    assert any("add of entry" in line for line in found.story)
    assert "VIOLATED R1" in found.line()


def test_each_bug_names_a_scope_that_exists() -> None:
    known = {scope.name for scope in SCOPES}
    scopes = [bug.scope for bug in map(load, names()) if bug.scope]
    assert scopes and set(scopes) <= known
