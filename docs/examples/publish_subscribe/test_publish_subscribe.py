"""Good payments are booked once although a subscriber is killed; bad ones are set aside."""

import asyncio

from publish_subscribe import (
    DEAD_LETTERS,
    PARTITIONS,
    PAYMENTS,
    TOPIC,
    Books,
    Payment,
    prepare,
    publish,
    subscribe,
)

from rhumbline import Client
from rhumbline.testing import Rehearsal, RehearsalFactory
from rhumbline.topics import Topics

ACCOUNTS = ("ada", "bob", "cy")
GOOD = [Payment(account, cents) for cents in range(1, 11) for account in ACCOUNTS]
BAD = Payment("ada", -5)


def test_a_bad_payment_is_set_aside_and_the_others_are_booked(
    rhumbline_cluster: RehearsalFactory,
) -> None:
    books = Books()  # one database of all subscribers

    async def publish_all(client: Client) -> None:
        await publish(client, [*GOOD[:15], BAD, *GOOD[15:]])

    async def publish_unreadable(client: Client) -> None:
        async with Topics(client).writer(TOPIC) as writer:
            await writer.append(b"not JSON", key=b"bob")

    async def subscriber(client: Client) -> None:
        await subscribe(client, books)

    async def scenario(cluster: Rehearsal) -> None:
        await cluster.run_program("east", prepare)
        first = cluster.start_program("north", subscriber)
        cluster.start_program("west", subscriber)
        await cluster.run_program("east", publish_all)
        await asyncio.sleep(0.3)
        first.kill()  # the other one gets its partitions
        await cluster.run_program("east", publish_unreadable)
        await asyncio.sleep(60)
        assert books.balances == dict.fromkeys(ACCOUNTS, 55)
        dead: list[bytes] = []
        for partition in range(PARTITIONS):
            dead += await cluster.read_payloads(f"{DEAD_LETTERS}.{partition}")
        assert any(payload.endswith(PAYMENTS.encode(BAD)) for payload in dead)
        assert any(payload.endswith(b"not JSON") for payload in dead)

    rhumbline_cluster(regions=3).run(scenario)
