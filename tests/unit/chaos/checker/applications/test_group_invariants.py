"""Each defect in the use of a topic violates the invariant that is about it, and no other."""

from collections.abc import Callable

import pytest

from rhumbline.chaos.checker.applications.topic_use import (
    ClaimVersion,
    GroupDelivery,
    TopicRecord,
    TopicUse,
)
from rhumbline.chaos.checker.history import History
from rhumbline.chaos.checker.run_record import INVARIANTS, RunRecord
from rhumbline.core.protocol.dlsn import Dlsn

FIRST, SECOND, THIRD = Dlsn(1, 0, 0), Dlsn(1, 1, 0), Dlsn(1, 2, 0)


def a_use() -> TopicUse:
    """Return a valid use: member a passes partition 0 to member b, which reads a record again."""
    use = TopicUse()
    use.keys = {
        TopicRecord(1, 0): b"k",
        TopicRecord(1, 1): b"k",
        TopicRecord(1, 2): b"other",
        TopicRecord(2, 0): b"k",
    }
    use.acknowledged = {TopicRecord(1, 0): FIRST, TopicRecord(1, 1): SECOND}
    use.contents = {
        0: [(FIRST, TopicRecord(1, 0)), (SECOND, TopicRecord(1, 1)), (THIRD, TopicRecord(2, 0))],
        1: [(FIRST, TopicRecord(1, 2))],
    }
    use.claims = {
        0: [ClaimVersion(10.0, "a"), ClaimVersion(30.0, None), ClaimVersion(40.0, "b")],
        1: [ClaimVersion(10.0, "a")],
    }
    use.deliveries = [
        GroupDelivery(20.0, "a", 0, (FIRST, SECOND)),
        GroupDelivery(50.0, "b", 0, (SECOND, THIRD)),
        GroupDelivery(60.0, "a", 1, (FIRST,)),
    ]
    use.stored = {0: [(5.0, FIRST), (25.0, SECOND), (55.0, Dlsn(1, 2, 1))], 1: []}
    return use


def violated(use: TopicUse | None) -> list[str]:
    record = RunRecord(History(lambda: 0.0), {}, {}, {})
    record.topic = use
    return [name for name in ("G35", "G36", "G37") if list(INVARIANTS[name](record))]


def delivery_without_a_claim(use: TopicUse) -> None:
    use.deliveries.append(GroupDelivery(35.0, "a", 0, (SECOND,)))


def delivery_under_the_claim_of_another_member(use: TopicUse) -> None:
    use.deliveries.append(GroupDelivery(45.0, "a", 0, (SECOND,)))


def position_passes_before_the_delivery(use: TopicUse) -> None:
    use.stored[0][1] = (15.0, SECOND)


def position_passes_what_was_not_delivered(use: TopicUse) -> None:
    use.stored[1] = [(70.0, THIRD)]
    use.contents[1].append((SECOND, TopicRecord(2, 1)))
    use.keys[TopicRecord(2, 1)] = b"another"


def record_is_stored_twice(use: TopicUse) -> None:
    use.contents[1].append((SECOND, TopicRecord(2, 0)))


def records_of_a_key_change_places(use: TopicUse) -> None:
    use.contents[0][:2] = [(FIRST, TopicRecord(1, 1)), (SECOND, TopicRecord(1, 0))]
    use.acknowledged.clear()


def key_is_in_two_partitions(use: TopicUse) -> None:
    use.keys[TopicRecord(1, 2)] = b"k"


def acknowledged_record_is_missing(use: TopicUse) -> None:
    use.acknowledged[TopicRecord(3, 0)] = THIRD


DEFECTS: dict[str, tuple[Callable[[TopicUse], None], ...]] = {
    "G35": (delivery_without_a_claim, delivery_under_the_claim_of_another_member),
    "G36": (position_passes_before_the_delivery, position_passes_what_was_not_delivered),
    "G37": (
        record_is_stored_twice,
        records_of_a_key_change_places,
        key_is_in_two_partitions,
        acknowledged_record_is_missing,
    ),
}


def test_valid_use_violates_nothing() -> None:
    assert violated(None) == violated(a_use()) == []


def test_a_member_that_cannot_know_of_the_end_of_its_session_violates_nothing() -> None:
    use = a_use()
    use.unnoticed = [(29.0, 36.0)]
    delivery_without_a_claim(use)
    assert violated(use) == []


@pytest.mark.parametrize(
    ("name", "add_defect"),
    [(name, add_defect) for name, defects in DEFECTS.items() for add_defect in defects],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_each_defect_is_found(name: str, add_defect: Callable[[TopicUse], None]) -> None:
    use = a_use()
    add_defect(use)
    assert violated(use) == [name]
