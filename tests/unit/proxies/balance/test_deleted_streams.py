"""Assignments of deleted streams are removed, and never those of a stream that exists."""

import pytest

from rhumbline.core.runtime.metadata_store import MetadataStore, Operation
from rhumbline.proxies.balance import deleted_streams
from rhumbline.proxies.balance.assignment_store import (
    StoredTable,
    change_table,
    read_table,
    write_table,
)
from rhumbline.proxies.balance.assignments import AssignmentTable
from rhumbline.proxies.balance.deleted_streams import (
    STREAMS_MAX,
    forget_all_deleted,
    forget_deleted,
)
from rhumbline.proxies.routing import stream_key
from rhumbline.tests.support.fakes.log_world import LogWorld

NAMESPACE = "test"


def key(stream: str) -> str:
    return stream_key(NAMESPACE, stream)


async def assign(log: LogWorld, region: str, table: AssignmentTable) -> None:
    await change_table(log.store, region, lambda _: table)


async def test_assignments_of_a_deleted_stream_are_removed_in_all_regions(log: LogWorld) -> None:
    await log.namespace.create_stream("kept")
    await assign(log, "east", AssignmentTable({key("s"): "a:1", key("kept"): "a:1"}, {}))
    await assign(log, "west", AssignmentTable({}, {key("s"): "b:1", key("kept"): "b:1"}))
    await forget_deleted(log.store, NAMESPACE, "s")
    await forget_deleted(log.store, NAMESPACE, "kept")
    east = (await read_table(log.store, "east")).table
    west = (await read_table(log.store, "west")).table
    assert east == AssignmentTable({key("kept"): "a:1"}, {})
    assert west == AssignmentTable({}, {key("kept"): "b:1"})


async def test_a_sweep_removes_many_and_keys_that_name_no_stream(log: LogWorld) -> None:
    gone = [key(f"s{n}") for n in range(40)]
    table = AssignmentTable({"nonsense": "a:1", **dict.fromkeys(gone, "a:1")}, {})
    await assign(log, "east", table)
    assert await forget_all_deleted(log.store, "east", list(table.moved)) == STREAMS_MAX
    assert await forget_all_deleted(log.store, "east", list(table.moved)[STREAMS_MAX:]) == 9
    assert await forget_all_deleted(log.store, "east", list(table.moved)) == 0
    assert (await read_table(log.store, "east")).table.addresses() == {}


async def test_a_stream_that_is_created_meanwhile_keeps_its_pin(
    log: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream is created, and its pin is the same, between the decision and the write."""
    pinned = AssignmentTable({}, {key("s"): "a:1"})
    await assign(log, "east", pinned)

    async def create_first(
        store: MetadataStore,
        region: str,
        stored: StoredTable,
        changed: AssignmentTable,
        *,
        conditions: tuple[Operation, ...],
    ) -> bool:
        monkeypatch.undo()
        await log.namespace.create_stream("s")
        return await write_table(store, region, stored, changed, conditions=conditions)

    monkeypatch.setattr(deleted_streams, "write_table", create_first)
    assert await forget_all_deleted(log.store, "east", [key("s")]) == 0
    assert (await read_table(log.store, "east")).table == pinned
