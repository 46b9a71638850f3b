"""A new replica: healthy, without a backlog, and a member of the present ensemble."""

from rhumbline.core.ledger.replica import Replica
from rhumbline.core.protocol.bookie_id import BookieId, Region


def test_new_replica_is_healthy_and_has_no_backlog() -> None:
    replica = Replica(3, BookieId("b3@00000000"), Region("a"))
    assert (replica.index, replica.bit) == (3, 0b1000)
    assert (replica.bookie, replica.region) == ("b3@00000000", "a")
    assert replica.last_entry_id is None
    assert replica.lag_bytes == 0
    assert replica.failed_since is None
    assert replica.overdue_from == 0
    assert replica.error is None
    assert replica.has_probe is False
    assert Replica(0, BookieId("b:1"), None).bit == 1
