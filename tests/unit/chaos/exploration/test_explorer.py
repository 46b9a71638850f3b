"""The search reaches every outcome of a scope, with and without its reductions."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from rhumbline.chaos.exploration.explorer import SearchResult
from rhumbline.chaos.exploration.global_state import key_of
from rhumbline.chaos.exploration.processes.process import Facts
from rhumbline.chaos.exploration.scope import Scope
from rhumbline.chaos.exploration.scopes import scope_of

ONE_ENTRY = replace(scope_of("write"), entries=1)
LAC = replace(scope_of("read-lac"), entries=1, reader_rounds=0, faults=())
RACE = replace(scope_of("fence-close"), recoveries=0)
Outcomes = set[tuple[tuple[str, tuple[object, ...]], ...]]


def outcomes_of(
    scope: Scope, *, is_reduced: bool, is_merging: bool
) -> tuple[SearchResult, Outcomes]:
    """Explore a scope and return the facts of its final states."""
    found: Outcomes = set()

    def keep(facts: dict[str, Facts]) -> None:
        found.add(tuple((name, of.key()) for name, of in facts.items()))

    explorer = scope.explorer(finals=keep, is_reduced=is_reduced, is_merging=is_merging)
    result = explorer.run(60)
    explorer.states.close()
    assert result.is_complete
    return result, found


@pytest.mark.parametrize("name", ["write", "write-near"])
def test_smallest_scopes_are_exhausted_without_a_violation(name: str) -> None:
    explorer = scope_of(name).explorer()
    result = explorer.run(60)
    explorer.states.close()
    assert result.is_complete and not result.violations
    assert result.finals and result.states > result.finals


@pytest.mark.parametrize("scope", [ONE_ENTRY, RACE, LAC], ids=["write", "close", "lac"])
def test_reductions_lose_no_outcome(scope: Scope) -> None:
    full, expected = outcomes_of(scope, is_reduced=False, is_merging=False)
    reduced, found = outcomes_of(scope, is_reduced=True, is_merging=True)
    assert found == expected
    assert reduced.states < full.states


def test_an_interrupted_search_continues_where_it_stopped(tmp_path: Path) -> None:
    expected, _ = outcomes_of(ONE_ENTRY, is_reduced=True, is_merging=True)
    saved = tmp_path / "write.json"
    first, second = ONE_ENTRY.explorer(), ONE_ENTRY.explorer()
    assert not first.run(60, states_max=10).is_complete
    first.save(saved)
    second.resume(saved)
    result = second.run(60)
    for explorer in (first, second):
        explorer.states.close()
    assert result.is_complete
    assert (result.states, result.finals) == (expected.states, expected.finals)
    assert result.transitions == expected.transitions


def test_the_key_of_a_state_is_known_before_the_state_is_built() -> None:
    explorer = ONE_ENTRY.explorer()
    transitions = explorer.transitions
    states = [transitions.initial()]
    for state in islice(states, 200):
        for move in transitions.all_of(state):
            after = transitions.after(state, move)
            assert transitions.key_after(state, key_of(state), move) == key_of(after)
            states.append(after)
    explorer.states.close()
    assert len(states) > 10
