"""A test that fails on purpose: it finds the bug of ``CarelessDesk``."""

import asyncio

from orders import STREAM, CarelessDesk

from rhumbline import Client
from rhumbline.testing import Rehearsal, RehearsalFactory

ORDERS = [b"order %d" % number for number in range(100)]


def test_no_order_is_booked_twice(rhumbline_cluster: RehearsalFactory) -> None:
    async def desk(client: Client) -> None:
        await CarelessDesk(client).take(ORDERS)

    async def scenario(cluster: Rehearsal) -> list[bytes]:
        await cluster.create_stream(STREAM)
        taking = cluster.start_program("east", desk)
        await asyncio.sleep(0.5)
        cluster.cut_region("east")
        await asyncio.sleep(5)
        cluster.heal_region("east")
        await taking
        return await cluster.read_payloads(STREAM, region="west")

    booked = rhumbline_cluster(regions=3).run(scenario)
    assert sorted({order for order in booked if booked.count(order) > 1}) == []
