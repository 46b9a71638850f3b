"""Operations on the metadata store are those of the production services."""

import asyncio

from rhumbline.chaos.simulation.capacity.metadata_load import PROCESSES, measure_metadata


def test_operations_are_counted_by_kind_for_each_ledger() -> None:
    found = asyncio.run(measure_metadata(60, 100))
    assert found["names_listed_by_creation"] >= 100, "a choice lists all bookies"
    assert found["created"]["transaction"] + found["created"].get("create", 0) >= 1
    assert found["audited"]["get"] == 1.0
    assert list(found["repaired"]) == [str(number) for number in PROCESSES]
    for counts in found["repaired"].values():
        assert counts["ledgers"] > 0
        assert counts["put"] >= 1.0, "the new members are recorded"
        assert counts["create"] >= 2.0, "a task and a lock"
        assert counts["get"] > 1.0
