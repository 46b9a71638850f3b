"""A checker that finds nothing proves nothing: bugs that were planted are found, each by itself.

Here are those that a few seeds show; ``make mutations`` hunts all of them.
"""

import shutil
from pathlib import Path

import pytest

from rhumbline.chaos.mutations.patch import Edit, PatchError, apply, copy_with, load, names
from rhumbline.chaos.mutations.runner import NONE, Budget, Outcome, hunt_all

QUICK = {
    "b1": {"L14"},
    "b3": {"L15"},
    "b4": {"L2", "L6"},
    "b10": {"V1"},
    "b11": {"V1", "LIVE"},
    "b12": {"V1", "L14"},
    "ack-before-sync": {"L12"},
    "ack-before-seal": {"G1"},
    "ack-too-few": {"R1"},
    "ack-without-p": {"R1"},
    "lssn-reused": {"G7"},
    "skip-fence": {"L10", "L14"},
    "unknown-is-no": {"L10", "L14"},
}
SEEDS = 40
CLEAN_SEEDS = 12


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    budget = Budget(seeds=SEEDS, seconds=120, jobs=2)
    found = hunt_all(list(QUICK), budget)
    return {outcome.name: outcome for outcome in found}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", QUICK)
def test_planted_bug_breaks_the_invariants_that_it_should(
    outcomes: dict[str, Outcome], name: str
) -> None:
    outcome = outcomes[name]
    assert outcome.is_found, outcome
    assert set(outcome.found_by) & QUICK[name], outcome


@pytest.mark.timeout(200)
def test_nothing_is_found_in_the_code_as_it_is() -> None:
    [outcome] = hunt_all([NONE], Budget(seeds=CLEAN_SEEDS, seconds=150))
    assert outcome.seeds == CLEAN_SEEDS, outcome
    assert not outcome.is_found, outcome
    assert not outcome.crashes, outcome


def test_every_patch_fits_the_code(tmp_path: Path) -> None:
    clean = copy_with(None, tmp_path) / "rhumbline"
    for name in names():
        for edit in load(name).edits:
            before = (clean / edit.file).read_text()
            apply(edit, clean)
            assert (clean / edit.file).read_text() != before, f"{name} changes nothing"
            compile((clean / edit.file).read_text(), f"{name}: {edit.file}", "exec")
        for edit in load(name).edits:
            shutil.copy(Path(__file__).parents[2] / edit.file, clean / edit.file)


def test_every_bug_of_the_list_is_planted() -> None:
    numbers = [n for n in range(1, 24) if n != 21]
    assert {f"b{n}" for n in numbers} <= set(names())


def test_patch_that_no_longer_fits_or_touches_the_judge_is_refused(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("twice twice")
    for text in ("never", "twice"):
        with pytest.raises(PatchError):
            apply(Edit("code.py", text, "new"), tmp_path)
    with pytest.raises(PatchError):
        apply(Edit("chaos/checker/verdict.py", "a", "b"), tmp_path)
