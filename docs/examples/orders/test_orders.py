"""What the application promises, while regions fail. Minutes of outage pass in milliseconds."""

import asyncio

from orders import STREAM, CarefulDesk, Warehouse

from rhumbline.chaos.rehearsal import MakeRehearsal, Rehearsal
from rhumbline.client.connect import Client

ORDERS = [b"order %d" % number for number in range(100)]


async def desk(client: Client) -> None:
    await CarefulDesk(client).take(ORDERS)


def test_orders_are_shipped_while_a_region_is_lost(rhumbline_cluster: MakeRehearsal) -> None:
    warehouse = Warehouse()

    async def story(cluster: Rehearsal) -> None:
        await cluster.create_stream(STREAM)
        cluster.start("north", warehouse.work)
        taking = cluster.start("east", desk)
        await asyncio.sleep(0.5)
        cluster.lose("west")
        await taking
        await asyncio.sleep(5)

    rhumbline_cluster(regions=3).play(story)
    assert warehouse.shipped == ORDERS


def test_nothing_is_booked_twice_when_the_desk_is_cut_off(rhumbline_cluster: MakeRehearsal) -> None:
    async def story(cluster: Rehearsal) -> list[bytes]:
        await cluster.create_stream(STREAM)
        taking = cluster.start("east", desk)
        await asyncio.sleep(0.5)
        cluster.cut("east")
        await asyncio.sleep(5)
        cluster.heal("east")
        await taking
        return await cluster.payloads(STREAM, region="west")

    assert rhumbline_cluster(regions=3).play(story) == ORDERS


def test_a_region_comes_back_with_everything(rhumbline_cluster: MakeRehearsal) -> None:
    async def story(cluster: Rehearsal) -> list[bytes]:
        await cluster.create_stream(STREAM)
        taking = cluster.start("east", desk)
        await asyncio.sleep(0.5)
        cluster.lose("north")
        await taking
        cluster.restore("north")
        await asyncio.sleep(10)
        cluster.lose("east")  # where the orders came from
        return await cluster.payloads(STREAM, region="north")

    assert rhumbline_cluster(regions=3).play(story) == ORDERS
