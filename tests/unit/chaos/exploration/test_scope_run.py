"""A planted bug is found by its scope, and its schedule is told like a simulated run."""

from pathlib import Path

from rhumbline.chaos.exploration.scope_run import run_scope, run_with_bug
from rhumbline.chaos.exploration.scopes import SCOPES, scope_of
from rhumbline.chaos.planted_bugs.patch import load, names


def test_an_acknowledgement_without_p_is_found_and_told() -> None:
    bug = load("ack-without-p")
    found = run_with_bug(bug, bug.scope, 60)
    assert found.invariant == "R1"
    assert "VIOLATED R1: for writer entry" in found.story[-1]
    assert any("add of entry" in line for line in found.story)
    assert "VIOLATED R1" in found.line()


def test_responses_to_repair_are_told_as_well() -> None:
    found = run_with_bug(load("repair-without-last"), "repair", 60)
    assert found.invariant == "R1"
    assert any("repair-1" in line and "recovery add of entry 0: OK" in line for line in found.story)


def test_each_bug_names_a_scope_that_exists() -> None:
    known = {scope.name for scope in SCOPES}
    scopes = [bug.scope for bug in map(load, names()) if bug.scope]
    assert scopes and set(scopes) <= known


def test_a_search_continues_from_its_folder_until_it_is_exhausted(tmp_path: Path) -> None:
    scope = scope_of("write")
    expected = run_scope(scope, 60)
    first = run_scope(scope, 0, tmp_path)
    assert not first.is_complete and (tmp_path / "write.search").exists()
    second = run_scope(scope, 60, tmp_path)
    assert second.is_complete and not (tmp_path / "write.search").exists()
    assert (second.states, second.schedules) == (expected.states, expected.schedules)
    assert run_scope(scope, 0, tmp_path) == second
