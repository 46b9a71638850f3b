"""Tests that every process computes the same partitions and assignments."""

from random import Random

import pytest
from crc32c import crc32c

from rhumbline.core.log.topics.partitions import (
    ByKey,
    RoundRobin,
    assign_partitions,
    check_partition_count,
    partition_of_key,
)
from rhumbline.core.protocol.errors import InvalidArgumentError


def test_shares_are_even_complete_and_independent_of_the_order() -> None:
    random = Random(1)
    for _ in range(300):
        count, members = random.randint(1, 60), [f"m{n}" for n in range(random.randint(1, 12))]
        shares = assign_partitions(count, members)
        assert sorted(n for share in shares.values() for n in share) == list(range(count))
        sizes = [len(share) for share in shares.values()]
        assert max(sizes) - min(sizes) <= 1
        random.shuffle(members)
        assert assign_partitions(count, members) == shares
    assert assign_partitions(5, []) == {}


def test_leaving_member_moves_few_other_partitions() -> None:
    moved = 0
    for gone in range(10):
        members = [f"member {n}" for n in range(10)]
        before = {n: m for m, share in assign_partitions(100, members).items() for n in share}
        members.remove(f"member {gone}")
        after = {n: m for m, share in assign_partitions(100, members).items() for n in share}
        moved += sum(after[n] != before[n] for n in after)
    assert 100 <= moved <= 400, "of 900 other partitions in total, few move; 100 must move"


def test_keys_keep_their_partition_and_keyless_records_take_turns() -> None:
    by_key, again = ByKey(), ByKey()
    keys = [b"%d" % n for n in range(1000)]
    chosen = [by_key.choose(key, 7) for key in keys]
    assert chosen == [again.choose(key, 7) for key in keys]
    assert all(100 < chosen.count(n) < 200 for n in range(7))
    assert [by_key.choose(None, 3) for _ in range(4)] == [0, 1, 2, 0]
    assert [RoundRobin().choose(b"k", 3), RoundRobin().choose(None, 3)] == [0, 0]


def test_key_keeps_its_partition_or_moves_to_a_new_one() -> None:
    keys = [b"customer %d" % n for n in range(2_000)]
    for first_count in (1, 2, 3, 7):
        before = [partition_of_key(key, first_count, first_count) for key in keys]
        assert before == [crc32c(key) % first_count for key in keys], "as before topics grew"
        for count in range(first_count + 1, 5 * first_count + 2):
            after = [partition_of_key(key, count, first_count) for key in keys]
            moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
            assert {new for _, new in moved} == {count - 1}, "only to the new partition"
            assert len({old for old, _ in moved}) == 1, "only from the one that is split"
            before = after


def test_keys_stay_when_a_topic_grows_by_many_partitions_at_once() -> None:
    for key in (b"%d" % n for n in range(1_000)):
        grown = partition_of_key(key, 11, 3)
        assert grown == partition_of_key(key, 3, 3) or grown >= 3


@pytest.mark.parametrize("count", [0, -1, 10_001, True, "3"])
def test_impossible_counts_are_refused(count: int) -> None:
    with pytest.raises(InvalidArgumentError):
        check_partition_count(count)
