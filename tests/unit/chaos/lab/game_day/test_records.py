"""Lost, doubled and disordered records are found."""

import pytest

from rhumbline.chaos.lab.game_day.records import judge_records, parse_outcomes


def test_outcomes_are_read_but_for_a_partial_last_line() -> None:
    found = parse_outcomes(["a 0 acked 1.5\n", "a 1 unknown 2.0\n", "b 0 acked 4.0\n", "a 2 ack"])
    assert found.acked == {"a": [0], "b": [0]}
    assert found.unknown == 1
    assert found.times_s == {"a": [1.5], "b": [4.0]}


@pytest.mark.parametrize(
    ("began_s", "ended_s", "gap_s"), [(1.0, 5.0, 2.5), (0.0, 1.0, 1.0), (2.0, 9.0, 5.0)]
)
def test_the_longest_gap_counts_the_edges(began_s: float, ended_s: float, gap_s: float) -> None:
    found = parse_outcomes(["a 0 acked 1.5\n", "a 1 acked 4.0\n"])
    assert found.longest_gap_s(began_s, ended_s) == gap_s


def test_the_stream_that_waited_longest_counts() -> None:
    found = parse_outcomes(["a 0 acked 1.0\n", "b 0 acked 2.0\n", "a 1 acked 3.0\n"])
    assert found.longest_gap_s(0.0, 4.0) == 2.0
    assert parse_outcomes([]).longest_gap_s(0.0, 4.0) == 4.0


def test_all_records_in_order_are_no_fault() -> None:
    assert judge_records({"a": [0, 2]}, {"a": [0, 1, 2]}) == []


@pytest.mark.parametrize(
    ("read", "fault"),
    [
        ([0, 2], "a lost 1 acknowledged records: 1"),
        ([0, 1, 1, 2], "a has 1 records twice: 1"),
        ([0, 2, 1], "a is out of order"),
    ],
)
def test_faults_are_named(read: list[int], fault: str) -> None:
    assert judge_records({"a": [0, 1, 2]}, {"a": read}) == [fault]


def test_a_stream_that_was_not_read_is_a_fault() -> None:
    assert judge_records({"a": [0]}, {}) == ["a was not read"]


def test_long_lists_of_numbers_are_cut() -> None:
    [fault] = judge_records({"a": list(range(9))}, {"a": []})
    assert fault == "a lost 9 acknowledged records: 0, 1, 2, 3, 4, ..."
