"""The checker finds planted bugs, one at a time, which shows that its silence means something.

These tests cover the bugs that few seeds find; ``make planted-bugs`` hunts all of them.
"""

import shutil
from pathlib import Path

import pytest

from rhumbline.chaos.planted_bugs.patch import Edit, PatchError, apply, copy_with, load, names
from rhumbline.chaos.planted_bugs.runner import NONE, Budget, HuntResult, hunt_all

QUICK = (
    "b1",
    "b3",
    "b4",
    "b5",
    "b6",
    "b9",
    "b10",
    "b11",
    "b12",
    "b15",
    "b16",
    "b18",
    "b20",
    "b22",
    "ack-before-sync",
    "ack-before-seal",
    "ack-too-few",
    "ack-without-p",
    "end-is-no-end",
    "fences-not-in-snapshot",
    "group-commits-fetched",
    "lssn-reused",
    "schema-added-unchecked",
    "schema-not-conditional",
    "second-fence-unsynced",
    "skip-fence",
    "mark-outlives-untruncation",
    "slots-skipped",
    "topic-key-by-turn",
    "truncation-goes-back",
    "two-changes",
    "unknown-is-no",
    "waiting-not-sent",
)
SEEDS = 100
CLEAN_SEEDS = 12


@pytest.fixture(scope="module")
def outcomes() -> dict[str, HuntResult]:
    budget = Budget(seeds=SEEDS, seconds=200, jobs=2)
    found = hunt_all(QUICK, budget)
    return {outcome.name: outcome for outcome in found}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", QUICK)
def test_planted_bug_violates_the_invariants_that_it_names(
    outcomes: dict[str, HuntResult], name: str
) -> None:
    outcome = outcomes[name]
    assert outcome.is_found, outcome
    assert set(outcome.found_by) <= set(load(name).counts)


@pytest.mark.long
@pytest.mark.timeout(200)
def test_nothing_is_found_in_the_unchanged_code() -> None:
    [outcome] = hunt_all([NONE], Budget(seeds=CLEAN_SEEDS, seconds=150))
    assert outcome.seeds == CLEAN_SEEDS, outcome
    assert not outcome.is_found, outcome
    assert not outcome.crashes, outcome


def test_every_patch_applies_to_the_code(tmp_path: Path) -> None:
    clean = copy_with(None, tmp_path) / "rhumbline"
    for name in names():
        for edit in load(name).edits:
            before = (clean / edit.file).read_text()
            apply(edit, clean)
            assert (clean / edit.file).read_text() != before, f"{name} changes nothing"
            compile((clean / edit.file).read_text(), f"{name}: {edit.file}", "exec")
        for edit in load(name).edits:
            shutil.copy(Path(__file__).parents[2] / edit.file, clean / edit.file)


def test_every_numbered_bug_is_planted() -> None:
    numbers = [n for n in range(1, 24) if n != 21]
    assert {f"b{n}" for n in numbers} <= set(names())


def test_patch_that_does_not_apply_or_changes_the_checker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("twice twice")
    for text in ("never", "twice"):
        with pytest.raises(PatchError):
            apply(Edit("code.py", text, "new"), tmp_path)
    with pytest.raises(PatchError):
        apply(Edit("chaos/checker/run_record.py", "a", "b"), tmp_path)
