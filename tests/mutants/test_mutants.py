"""Tests of the tool: which mutants it makes, which tests it chooses, and what it finds."""

from collections import Counter
from pathlib import Path

import pytest

from rhumbline.tests.mutants import page, selection
from rhumbline.tests.mutants.baseline import AT_IMPORT, Baseline
from rhumbline.tests.mutants.code_patch import LoadedFunctions
from rhumbline.tests.mutants.equivalents import read_equivalents
from rhumbline.tests.mutants.fork_server import KILLED, SURVIVED
from rhumbline.tests.mutants.imported_root import check_imported_root
from rhumbline.tests.mutants.mutation import Mutant, find_mutants
from rhumbline.tests.mutants.runner import Result, Runner

ROOT = Path(__file__).resolve().parents[2]

SAMPLE = '''"""Docstring."""

from typing import cast

LIMIT = 5


def is_small(value: int) -> bool:
    """Docstring."""
    assert value >= 0, "never"
    if value > 99:
        raise ValueError(f"{value} is above {99}")
    report(
        value,
    )
    return cast("bool", value < LIMIT)
'''


def mutants_of(folder: Path, source: str, name: str = "core/sample.py") -> list[Mutant]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return find_mutants(folder, name).mutants


def test_changes_are_small_and_texts_and_assertions_are_left_out(tmp_path: Path) -> None:
    mutants = mutants_of(tmp_path, SAMPLE)
    changed = {(mutant.before, mutant.after) for mutant in mutants}
    assert ("LIMIT = 5", "LIMIT = 6") in changed
    assert ("if value > 99:", "if value >= 99:") in changed
    assert ("report( value, )", "pass") in changed
    assert all("assert" not in before and "raise" not in before for before, _ in changed)
    assert not any('"XX' in after for _, after in changed)
    for mutant in mutants:
        source = mutant.mutated(SAMPLE)
        assert source != SAMPLE
        compile(source, "sample", "exec")


def test_a_mutant_knows_its_function_and_when_it_takes_effect(tmp_path: Path) -> None:
    by_line = {mutant.before: mutant for mutant in mutants_of(tmp_path, SAMPLE)}
    assert by_line["if value > 99:"].function == "is_small"
    assert by_line["if value > 99:"].is_in_function
    assert not by_line["LIMIT = 5"].is_in_function


def test_tests_of_the_module_come_first_and_the_budget_limits_only_the_others(
    tmp_path: Path,
) -> None:
    mutant = next(m for m in mutants_of(tmp_path, SAMPLE) if m.before.startswith("if value"))
    own, other = "tests/unit/core/test_sample.py::test_own", "tests/unit/x/test_x.py::test_other"
    slow = "tests/unit/x/test_x.py::test_slow"
    seconds = {own: 3.0, other: 0.5, slow: 9.0, "tests/unit/x/test_y.py::test_y": 0.1}
    tests = {own, other, slow}
    baseline = Baseline(seconds, {"core/sample.py": {mutant.line: tests, 5: {AT_IMPORT}}})
    assert selection.tests_for(mutant, baseline, 4.0) == [own, other]
    assert selection.tests_for(mutant, baseline, 1.0) == [own]
    assert selection.tests_for(mutant, baseline, 99.0) == [own, other, slow]
    assert not selection.is_at_import(mutant, baseline)


def test_code_of_a_loaded_function_is_replaced() -> None:
    source = "class A:\n    def f(self):\n        return 1\n"
    old = compile(source, "sample", "exec")
    names: dict[str, type] = {}
    exec(old, names)
    LoadedFunctions().replace(old, compile(source.replace("1", "2"), "sample", "exec"))
    assert names["A"]().f() == 2


def test_a_checked_change_is_killed_and_an_unchecked_one_survives() -> None:
    mutants = find_mutants(ROOT, "core/protocol/dlsn.py").mutants
    test = "tests/unit/core/protocol/test_dlsn.py"
    in_function = next(m for m in mutants if m.is_in_function and "pack" in m.before)
    at_import = [
        next(mutant for mutant in mutants if mutant.before.startswith(name))
        for name in ("_BYTES", "FIRST_DLSN")
    ]
    seconds = {f"{test}::test_both_forms_round_trip_and_bytes_sort_like_positions": 0.5}
    lines: dict[int, set[str]] = {line: set(seconds) for line in in_function.lines}
    baseline = Baseline(seconds, {"core/protocol/dlsn.py": lines})
    runner = Runner(ROOT, [test], baseline, workers=1, budget_s=5)
    results = runner.run([in_function, *at_import], lambda result: None)
    assert [result.tests for result in results] == [1, 1, 1]
    assert [result.outcome for result in results] == [KILLED, KILLED, SURVIVED]


def test_another_copy_of_the_product_is_refused(tmp_path: Path) -> None:
    check_imported_root(ROOT)
    with pytest.raises(SystemExit, match="not from"):
        check_imported_root(tmp_path)


def test_score_leaves_out_equivalent_mutants_and_states_an_interval(tmp_path: Path) -> None:
    mutants = mutants_of(tmp_path, SAMPLE)[:4]
    outcomes = [KILLED, KILLED, SURVIVED, SURVIVED]
    results = [
        Result(mutant, outcome, "", "", 1)
        for mutant, outcome in zip(mutants, outcomes, strict=True)
    ]
    measure = page.Measure("core", 1, 40, Counter(), results)
    equivalents: dict[tuple[str, ...], str] = {mutants[3].key: "the same"}
    assert measure.counts(equivalents) == (2, 1, 1)
    assert page.score(2, 1) == 2 / 3
    low, high = page.interval(2, 3)
    assert 0.2 < low < 2 / 3 < high < 0.95
    text = page.updated(tmp_path / "none.md", [measure], equivalents, "before")
    (tmp_path / "page.md").write_text(text)
    again = page.updated(tmp_path / "page.md", [], equivalents, "now")
    assert again == text


@pytest.mark.long
def test_every_mutant_that_was_judged_equivalent_still_exists() -> None:
    listed = read_equivalents()
    modules = {key[0] for key in listed}
    existing = {m.key for module in modules for m in find_mutants(ROOT, module).mutants}
    assert not [key for key in listed if key not in existing], "remove or correct these rows"
    assert all(len(reason) > 20 for reason in listed.values())
