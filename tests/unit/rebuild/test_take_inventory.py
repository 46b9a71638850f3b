"""An inventory contains what a bookie holds, including ledgers that may lack entries."""

from rhumbline.core.bookie.identity import Identity
from rhumbline.core.protocol.bookie_id import check_region
from rhumbline.core.wire.v2 import Code
from rhumbline.rebuild.inventory import HeldRange
from rhumbline.rebuild.take_inventory import take_inventory
from rhumbline.tests.unit.core.bookie.bookie_world import entry, one_bookie


async def test_a_hole_in_a_ledger_in_limbo_is_in_the_inventory() -> None:
    async with one_bookie() as (_, bookie, wire):
        for entry_id in (0, 1, 3):
            assert await wire.add(entry(1, entry_id)) == Code.OK
        bookie.storage.states.limbo.begin()
        identity = Identity(bookie.bookie_id, "i", check_region("eu"), check_region("r"))
        inventory = await take_inventory(bookie.storage, identity, 5)
        (held,) = inventory.ledgers
        assert (inventory.is_in_limbo, held.is_in_limbo) == (True, True)
        assert held.ranges == (HeldRange(0, 1), HeldRange(3, 3))
        assert [facts.entry_id for facts in held.tail] == [0, 1, 3]
        assert await wire.add(entry(1, 4)) == Code.FENCED, "the inventory is final"
