"""Each defect in the history of a stream's schemas is found."""

from collections.abc import Callable

import pytest

from rhumbline.chaos.checker.applications.schema_use import SchemaUse
from rhumbline.chaos.checker.history import History
from rhumbline.chaos.checker.run_record import INVARIANTS, RunRecord


def a_use() -> SchemaUse:
    """Return a valid use: one program is refused, and one does not learn of its outcome."""
    use = SchemaUse()
    use.checked = {"one": (), "late": (), "two": ("one",), "lost": ("one", "two")}
    use.outcomes = {"one": True, "late": False, "two": True}
    use.versions = [(1.0, ("one",)), (2.0, ("one", "two")), (3.0, ("one", "two", "lost"))]
    return use


def violations(use: SchemaUse | None) -> list[str]:
    record = RunRecord(History(lambda: 0.0), {}, {}, {})
    record.schemas = use
    return list(INVARIANTS["G38"](record))


def schema_follows_one_that_was_not_checked(use: SchemaUse) -> None:
    use.checked["two"] = ()


def schema_is_lost(use: SchemaUse) -> None:
    use.versions.append((4.0, ("one", "lost")))


def added_schema_is_missing(use: SchemaUse) -> None:
    use.outcomes["three"] = True


def refused_schema_is_there(use: SchemaUse) -> None:
    use.outcomes["two"] = False


def test_valid_use_violates_nothing() -> None:
    assert violations(None) == violations(a_use()) == []


@pytest.mark.parametrize(
    "add_defect",
    [
        schema_follows_one_that_was_not_checked,
        schema_is_lost,
        added_schema_is_missing,
        refused_schema_is_there,
    ],
)
def test_each_defect_is_found(add_defect: Callable[[SchemaUse], None]) -> None:
    use = a_use()
    add_defect(use)
    assert violations(use)
