"""Inventories survive their encoding; impossible ones are refused."""

from dataclasses import replace

import pytest

from rhumbline.core.protocol.bookie_id import BookieId, check_region
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.rebuild.inventory import (
    BookieInventory,
    EndFacts,
    HeldLedger,
    HeldRange,
    ranges_of,
)

HELD = HeldLedger(
    7,
    (HeldRange(0, 3), HeldRange(5, 9)),
    8,
    is_in_limbo=True,
    metadata=b"\x00copy",
    tail=(EndFacts(9, 100, has_records=True, record_count=20, last_txid=5),),
)
INVENTORY = BookieInventory(
    BookieId("b1@00000001"), "instance", check_region("eu"), check_region("r1"), 3, "ab", 5, 9,
    ledgers=(HELD,),
)  # fmt: skip


def test_inventories_survive_their_encoding() -> None:
    assert BookieInventory.decode(INVENTORY.encode(), "f") == INVENTORY


def test_held_entries_are_those_of_the_ranges() -> None:
    assert [entry_id for entry_id in range(12) if HELD.holds(entry_id)] == [
        *range(4),
        *range(5, 10),
    ]
    assert (HELD.last_entry_id, HeldLedger(1).last_entry_id) == (9, -1)
    assert ranges_of([0, 1, 2, 3, 5, 6, 7, 8, 9]) == HELD.ranges


@pytest.mark.parametrize(
    "ranges", [(HeldRange(3, 2),), (HeldRange(0, 5), HeldRange(5, 6)), (HeldRange(-1, 2),)]
)
def test_impossible_ranges_are_refused(ranges: tuple[HeldRange, ...]) -> None:
    broken = replace(INVENTORY, ledgers=(replace(HELD, ranges=ranges),))
    with pytest.raises(CorruptionError, match="not a valid inventory"):
        BookieInventory.decode(broken.encode(), "f")
