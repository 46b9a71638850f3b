"""The table of assignments: bounded, pins first, and nothing for proxies that are gone."""

import pytest

from rhumbline.core.protocol.errors import CorruptionError, LimitExceededError
from rhumbline.proxies.balance.assignments import EMPTY, TABLE_BYTES_MAX, AssignmentTable

MEMBERS = ("a:1", "b:1", "c:1")


def key(number: int) -> str:
    return f"default/{'s' * 100}{number:05}"


def full_table() -> AssignmentTable:
    count = TABLE_BYTES_MAX // (len(key(0)) + 7)
    table = AssignmentTable({key(n): MEMBERS[n % 2] for n in range(count)}, {})
    while table.size_bytes > TABLE_BYTES_MAX:
        count -= 1
        table = AssignmentTable({key(n): MEMBERS[n % 2] for n in range(count)}, {})
    return table


def test_table_is_encoded_and_decoded() -> None:
    table = AssignmentTable({"n/b": "b:1", "n/a": "a:1"}, {"n/c": "b:1"})
    decoded = AssignmentTable.decode("east", table.encode())
    assert decoded == table
    assert list(decoded.moved) == ["n/b", "n/a"], "the order is that of their age"
    assert decoded.addresses() == {"n/b": "b:1", "n/a": "a:1", "n/c": "b:1"}
    assert AssignmentTable.decode("east", EMPTY.encode()) == EMPTY


def test_fields_of_a_later_program_are_ignored() -> None:
    data = b'{"v":1,"addresses":["a:1"],"moved":[["n/s",0,"new"]],"pinned":[],"reasons":[]}'
    assert AssignmentTable.decode("east", data) == AssignmentTable({"n/s": "a:1"}, {})


def test_an_address_that_is_no_string_is_refused() -> None:
    with pytest.raises(CorruptionError):
        AssignmentTable.decode("east", b'{"v":1,"addresses":[7],"moved":[],"pinned":[]}')


@pytest.mark.parametrize(
    "item", ['["n/s",false]', '["n/s",1]', '["n/s",-1]', '["n/s"]', '"n/s"', "[1,0]"]
)
def test_an_unreadable_table_is_refused(item: str) -> None:
    data = b'{"v":1,"addresses":["a:1"],"moved":[%s],"pinned":[]}' % item.encode()
    with pytest.raises(CorruptionError):
        AssignmentTable.decode("east", data)


def test_a_stream_that_moves_again_becomes_the_newest() -> None:
    table = AssignmentTable({"n/a": "a:1", "n/b": "b:1", "n/gone": "gone:1"}, {"n/p": "a:1"})
    moved = table.with_moves({"n/a": "c:1"}, members=MEMBERS, hot=(), evictions_max=16)
    assert list(moved.moved.items()) == [("n/b", "b:1"), ("n/a", "c:1")]
    assert moved.pinned == table.pinned, "a pin stays although its proxy may be away"


def test_a_full_table_evicts_the_oldest_streams_that_are_not_hot() -> None:
    table = full_table()
    moves = {key(90_000): "c:1", key(90_001): "c:1"}
    moved = table.with_moves(moves, members=MEMBERS, hot={key(0)}, evictions_max=16)
    assert moved.size_bytes <= TABLE_BYTES_MAX
    assert moves.items() <= moved.moved.items()
    assert key(0) in moved.moved and key(1) not in moved.moved


def test_a_full_table_of_hot_streams_takes_no_more_moves() -> None:
    table = full_table()
    moves = {key(90_000): "c:1", key(90_001): "c:1"}
    moved = table.with_moves(moves, members=MEMBERS, hot=set(table.moved), evictions_max=16)
    assert moved.size_bytes <= TABLE_BYTES_MAX
    assert table.moved.items() <= moved.moved.items()


def test_a_pin_comes_before_a_move_and_leaves_the_stream_where_it_is() -> None:
    table = AssignmentTable({"n/s": "a:1"}, {}).with_pin("n/s", "b:1")
    assert table == AssignmentTable({}, {"n/s": "b:1"})
    assert table.without_pin("n/s") == AssignmentTable({"n/s": "b:1"}, {})
    assert table.without_pin("n/other") == table
    assert table.without("n/s") == EMPTY


def test_a_pin_takes_the_room_of_the_oldest_moves_and_of_no_pin() -> None:
    table = full_table()
    pinned = table.with_pin(key(90_000) * 2, "b:1")
    assert pinned.size_bytes <= TABLE_BYTES_MAX
    oldest = list(table.moved)[: len(table.moved) - len(pinned.moved)]
    assert 0 < len(oldest) < 4
    assert pinned.moved == {k: v for k, v in table.moved.items() if k not in oldest}
    with pytest.raises(LimitExceededError):
        AssignmentTable({}, table.moved).with_pin(key(90_000) * 2, "b:1")
