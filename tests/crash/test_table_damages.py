"""No damage to the metadata of a table changes a query without being found by verify."""

from pathlib import Path

from rhumbline.tests.crash.table_damages import DamagedTable


def test_damage_that_changes_a_query_is_found(tmp_path: Path) -> None:
    """The short form of the second part of ``make archive-damages``."""
    damaged = DamagedTable(tmp_path)
    outcome = damaged.run(15, seed=3)
    damaged.close()
    assert outcome.missed == []
    assert outcome.found > 10
