"""Tests of the judgement: each kind of fault is found, and redelivery is none."""

from pathlib import Path

from rhumbline.bench.shared_topic.delivery_audit import DeliveryVerdict, Records, judge
from rhumbline.bench.shared_topic.programs import tried_numbers

PRODUCED = ["T a 0", "A a 0", "T a 1", "A a 1", "T a 2", "T b 0", "A b 0", "A b"]
CONSUMED = [
    "R 0.8 0 1 0 0",
    "R 0.9 1 1 0 0",
    "D 1.0 0 1 0 0 a 0",
    "D 1.1 0 1 1 0 a 1",
    "C 1.2 0 1 1 1",
    "D 1.3 1 1 0 0 b 0",
    "D 1.4 0 1 2",
]


def verdict(consumed: list[str], *others: list[str]) -> DeliveryVerdict:
    records = Records()
    records.add_producer(PRODUCED)
    for lines in (consumed, *others):
        records.add_consumer(lines)
    return judge(records)


def test_clean_run() -> None:
    found = verdict(CONSUMED)
    assert found.is_clean
    assert (found.tried, found.acknowledged, found.delivered, found.repeated) == (4, 3, 3, 0)


def test_redelivery_of_what_was_not_committed_is_allowed() -> None:
    found = verdict(
        CONSUMED, ["R 1.5 1 1 0 0", "D 20.0 1 1 0 0 b 0", "R 9.0 0 1 0 0", "D 9.5 0 1 0 0 a 0"]
    )
    assert (found.is_clean, found.repeated) == (True, 2)


def test_redelivery_is_found_if_it_was_committed_before_the_member_read_the_position() -> None:
    assert verdict(CONSUMED, ["R 11.3 0 1 0 0", "D 11.4 0 1 0 0 a 0"]).repeated_after_commit


def test_redelivery_is_found_if_the_member_had_read_a_later_position() -> None:
    assert verdict(CONSUMED, ["R 1.3 0 1 1 1", "D 1.4 0 1 1 0 a 1"]).repeated_after_commit


def test_lost_records_are_found() -> None:
    assert verdict(CONSUMED[:-2]).lost == ("b 0",)


def test_records_of_nobody_and_moved_keys_are_found() -> None:
    assert verdict([*CONSUMED, "D 2.0 0 1 5 0 c 0"]).unknown == ("c 0",)
    assert verdict([*CONSUMED, "R 1.9 2 1 0 0", "D 2.0 2 1 5 0 a 2"]).unknown == ("a",)


def test_records_that_are_stored_twice_are_found() -> None:
    assert len(verdict([*CONSUMED, "D 2.0 0 1 5 0 a 0"]).stored_twice) == 1


def test_records_out_of_order_are_found() -> None:
    assert verdict([*CONSUMED[:2], "D 1.0 0 1 3 0 a 0", *CONSUMED[3:]]).out_of_order, (
        "in the stream"
    )
    assert verdict([*CONSUMED[:2], "D 1.15 0 1 0 0 a 0", *CONSUMED[3:]]).out_of_order, "in time"


def test_restarted_producers_continue_above_what_they_tried(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert tried_numbers(path) == {}
    path.write_text("\n".join([*PRODUCED, "T a"]))
    assert tried_numbers(path) == {"a": 2, "b": 0}
