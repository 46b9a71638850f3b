"""The default read policy: which replicas are read first, and when another one is read too."""

from random import Random

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.read.read_order import NearestFirst
from rhumbline.core.ledger.read_policy import ReadKind, ReplicaChoice
from rhumbline.core.protocol.bookie_id import BookieId, Region

CONFIG = LedgerConfig(speculative_read_ms=70, poll_speculative_ms=90)


def choice(index: int, region: str | None, *, has_failed: bool = False) -> ReplicaChoice:
    return ReplicaChoice(index, BookieId(f"b{index}@00000000"), region, has_failed)


def policy(own: str | None, slow: list[BookieId] | None = None) -> NearestFirst:
    heard = slow if slow is not None else []
    return NearestFirst(Region(own) if own else None, Random(1), CONFIG, heard.append)


def test_healthy_replicas_in_the_own_region_come_first_and_failed_ones_last() -> None:
    choices = [
        choice(0, "a", has_failed=True),
        choice(1, "b", has_failed=True),
        choice(2, "b"),
        choice(3, "a"),
        choice(4, None),
    ]
    for _ in range(20):
        order = [each.index for each in policy("a").order(choices)]
        assert order[0] == 3
        assert set(order[1:3]) == {2, 4}
        assert order[3:] == [0, 1]


@pytest.mark.parametrize("own", ["a", None])
def test_equal_replicas_are_read_in_random_order(own: str | None) -> None:
    order_of = policy(own).order
    choices = [choice(index, "b") for index in range(3)]
    seen = {tuple(each.index for each in order_of(choices)) for _ in range(200)}
    assert len(seen) == 6
    assert [each.index for each in choices] == [0, 1, 2]


def test_process_without_a_region_prefers_no_replica_for_its_region() -> None:
    order_of = policy(None).order
    choices = [choice(0, None), choice(1, "b")]
    assert {order_of(choices)[0].index for _ in range(50)} == {0, 1}


def test_silence_is_the_setting_of_the_kind_of_read() -> None:
    known = policy("a")
    assert known.silence_ms(ReadKind.ENTRY, choice(0, "a"), 1) == 70
    assert known.silence_ms(ReadKind.POLL, choice(0, "a"), 1) == 90
    assert known.may_send_more(ReadKind.ENTRY) is True
    assert known.may_send_more(ReadKind.POLL) is True


def test_only_replicas_that_were_outrun_are_reported_as_slow() -> None:
    slow: list[BookieId] = []
    known = policy("a", slow)
    known.on_response(ReadKind.ENTRY, choice(0, "a"), 1.0, 1)
    known.on_failure(choice(1, "a"))
    assert slow == []
    known.on_outrun(choice(2, "a"))
    assert slow == ["b2@00000000"]
