"""The totals are right although workers are killed and a region is cut off."""

import asyncio
from pathlib import Path

from order_service import PARTITIONS, TOPIC, Order, Totals, take_orders, work

from rhumbline import Client, Topics
from rhumbline.testing import Rehearsal, RehearsalFactory

ORDERS: list[Order] = [(f"customer-{number % 7}", number) for number in range(200)]


def expected() -> dict[str, int]:
    totals: dict[str, int] = {}
    for customer, amount in ORDERS:
        totals[customer] = totals.get(customer, 0) + amount
    return totals


def test_each_order_is_booked_once_although_workers_crash(
    rhumbline_cluster: RehearsalFactory, tmp_path: Path
) -> None:
    totals = Totals(str(tmp_path / "totals.db"))

    async def create(client: Client) -> None:
        await Topics(client).create(TOPIC, PARTITIONS)

    async def desk(client: Client) -> None:
        await take_orders(client, ORDERS)

    async def worker(client: Client) -> None:
        await work(client, totals)

    async def scenario(cluster: Rehearsal) -> None:
        await cluster.run_program("north", create)
        first = cluster.start_program("north", worker)
        cluster.start_program("east", worker)
        taking = cluster.start_program("east", desk)
        await asyncio.sleep(1)
        first.kill()
        cluster.kill_region("west")
        await taking
        await asyncio.sleep(60)

    rhumbline_cluster(regions=3).run(scenario)
    assert totals.all() == expected()
