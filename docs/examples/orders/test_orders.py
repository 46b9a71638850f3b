"""The application keeps its promises while regions fail; minutes of outage take milliseconds."""

import asyncio

from orders import STREAM, CarefulDesk, Warehouse

from rhumbline import Client
from rhumbline.testing import Rehearsal, RehearsalFactory

ORDERS = [b"order %d" % number for number in range(100)]


async def desk(client: Client) -> None:
    await CarefulDesk(client).take(ORDERS)


def test_orders_are_shipped_while_a_region_is_down(rhumbline_cluster: RehearsalFactory) -> None:
    warehouse = Warehouse()

    async def scenario(cluster: Rehearsal) -> None:
        await cluster.create_stream(STREAM)
        cluster.start_program("north", warehouse.work)
        taking = cluster.start_program("east", desk)
        await asyncio.sleep(0.5)
        cluster.kill_region("west")
        await taking
        await asyncio.sleep(5)

    rhumbline_cluster(regions=3).run(scenario)
    assert warehouse.shipped == ORDERS


def test_no_order_is_booked_twice_when_the_desk_is_cut_off(
    rhumbline_cluster: RehearsalFactory,
) -> None:
    async def scenario(cluster: Rehearsal) -> list[bytes]:
        await cluster.create_stream(STREAM)
        taking = cluster.start_program("east", desk)
        await asyncio.sleep(0.5)
        cluster.cut_region("east")
        await asyncio.sleep(5)
        cluster.heal_region("east")
        await taking
        return await cluster.read_payloads(STREAM, region="west")

    assert rhumbline_cluster(regions=3).run(scenario) == ORDERS


def test_a_restored_region_has_all_orders(rhumbline_cluster: RehearsalFactory) -> None:
    async def scenario(cluster: Rehearsal) -> list[bytes]:
        await cluster.create_stream(STREAM)
        taking = cluster.start_program("east", desk)
        await asyncio.sleep(0.5)
        cluster.kill_region("north")
        await taking
        cluster.restore_region("north")
        await asyncio.sleep(10)
        cluster.kill_region("east")  # the region that the orders came from
        return await cluster.read_payloads(STREAM, region="north")

    assert rhumbline_cluster(regions=3).run(scenario) == ORDERS
