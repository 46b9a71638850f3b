"""Tests of the writes that are collected for a transaction."""

from rhumbline.backends.fdb.keys import encode_stamp
from rhumbline.backends.fdb.mutations import Mutations
from rhumbline.tests.support.fakes.fdb_model import ModelCluster


def applied(*collected: Mutations) -> dict[bytes, bytes]:
    merged = Mutations()
    for each in collected:
        merged.update(each)
    cluster = ModelCluster()
    before = cluster.transaction()
    for key in (b"a", b"b", b"c"):
        before.set(key, b"old")
    before.commit().wait()
    transaction = cluster.transaction()
    merged.apply(transaction)
    transaction.commit().wait()
    return {pair.key: pair.value for pair in cluster.range(b"", b"\xff", cluster.version)}


def test_the_last_write_of_a_key_counts() -> None:
    first, second = Mutations(), Mutations()
    first.set(b"a", b"1")
    first.clear(b"b")
    first.stamp(b"c", encode_stamp())
    first.stamp(b"d", encode_stamp())
    second.stamp(b"b", encode_stamp())
    second.set(b"d", b"2")
    second.clear(b"c")
    found = applied(first, second)
    stamp = found.pop(b"b")
    assert len(stamp) == 10
    assert found == {b"a": b"1", b"d": b"2"}


def test_a_key_that_is_stamped_often_counts_once() -> None:
    once, often = Mutations(), Mutations()
    once.stamp(b"key", encode_stamp())
    for _ in range(100):
        often.stamp(b"key", encode_stamp())
    assert often.size_bytes == once.size_bytes > 3 * len(b"key") + len(encode_stamp())
