"""This test fails, and that is its purpose: it finds the bug of the careless desk."""

import asyncio

from orders import STREAM, CarelessDesk

from rhumbline.chaos.rehearsal import MakeRehearsal, Rehearsal
from rhumbline.client.connect import Client

ORDERS = [b"order %d" % number for number in range(100)]


def test_nothing_is_booked_twice(rhumbline_cluster: MakeRehearsal) -> None:
    async def desk(client: Client) -> None:
        await CarelessDesk(client).take(ORDERS)

    async def story(cluster: Rehearsal) -> list[bytes]:
        await cluster.create_stream(STREAM)
        taking = cluster.start("east", desk)
        await asyncio.sleep(0.5)
        cluster.cut("east")
        await asyncio.sleep(5)
        cluster.heal("east")
        await taking
        return await cluster.payloads(STREAM, region="west")

    booked = rhumbline_cluster(regions=3).play(story)
    assert sorted({order for order in booked if booked.count(order) > 1}) == []
