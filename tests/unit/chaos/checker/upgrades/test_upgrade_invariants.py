"""Each defect in the use of feature levels is found."""

from collections.abc import Callable

import pytest

from rhumbline.chaos.checker.history import History
from rhumbline.chaos.checker.judge import CHECKS
from rhumbline.chaos.checker.run_record import INVARIANTS, RunRecord
from rhumbline.chaos.checker.upgrades import upgrade_invariants
from rhumbline.chaos.checker.upgrades.upgrade_use import (
    Admission,
    LevelRise,
    RegisteredNode,
    StoredLevel,
    UnreadableValue,
    UpgradeUse,
)

PATH = "/rhumbline/namespaces/sim/streams/stream/segments/1"


def a_use() -> UpgradeUse:
    """Return a valid use. An old server registers during the command, and reads one value."""
    use = UpgradeUse(3)
    use.stored = [StoredLevel(10.0, 2, 3), StoredLevel(20.0, 3, 0)]
    late = RegisteredNode("/rhumbline/processes/late", "old/2", 2, 15.0)
    new = RegisteredNode("/rhumbline/processes/new", "new/1", 3, 5.0)
    use.rises = [LevelRise(20.0, 10.0, (late, new))]
    use.admissions = [Admission("old/2", 2, 9.0), Admission("new/1", 3, 4.0)]
    use.written = [(21.0, PATH)]
    use.unreadable = [UnreadableValue("old/2", PATH, 22.0)]
    use.running_after = {"new/1": 3}
    return use


def violations(use: UpgradeUse | None, invariant: str) -> list[str]:
    record = RunRecord(History(lambda: 0.0), {}, {}, {})
    record.upgrades = use
    return list(INVARIANTS[invariant](record))


def value_is_stored_too_early(use: UpgradeUse) -> None:
    use.written.append((19.0, PATH))


def value_is_met_too_early(use: UpgradeUse) -> None:
    use.unreadable.append(UnreadableValue("old/1", PATH, 19.0))


def value_is_stored_without_a_rise(use: UpgradeUse) -> None:
    use.rises.clear()


def level_rises_beside_an_old_server(use: UpgradeUse) -> None:
    old = RegisteredNode("/ledgers/available/b1", "old/1", 2, 9.0)
    use.rises = [LevelRise(20.0, 10.0, (old,))]


def level_falls(use: UpgradeUse) -> None:
    use.stored.append(StoredLevel(30.0, 2, 0))


def old_program_begins(use: UpgradeUse) -> None:
    use.admissions.append(Admission("old/3", 2, 21.0))


def old_program_runs_on(use: UpgradeUse) -> None:
    use.running_after["old/2"] = 2


def level_cannot_be_raised(use: UpgradeUse) -> None:
    use.final_refusal = "1 running process"


def test_the_judge_evaluates_them() -> None:
    assert upgrade_invariants in CHECKS


@pytest.mark.parametrize("invariant", ["G50", "G51", "G52"])
def test_valid_use_violates_nothing(invariant: str) -> None:
    assert violations(None, invariant) == violations(a_use(), invariant) == []


@pytest.mark.parametrize(
    ("invariant", "add_defect"),
    [
        ("G50", value_is_stored_too_early),
        ("G50", value_is_met_too_early),
        ("G50", value_is_stored_without_a_rise),
        ("G51", level_rises_beside_an_old_server),
        ("G51", level_falls),
        ("G52", old_program_begins),
        ("G52", old_program_runs_on),
        ("G52", level_cannot_be_raised),
    ],
)
def test_each_defect_is_found(invariant: str, add_defect: Callable[[UpgradeUse], None]) -> None:
    use = a_use()
    add_defect(use)
    assert violations(use, invariant)
