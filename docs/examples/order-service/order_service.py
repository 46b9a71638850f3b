"""A complete service: orders by customer, shared by workers, in totals that count each order once.

Through proxies ``take_orders`` runs in any number of processes, ``work`` in as many as there are
partitions. A worker stores its results and its position in one transaction of SQLite, so an order
that is delivered again, after a crash of a worker for example, changes nothing. The URI names a
metadata store, or proxies (``grpc://host:port``); the code is the same for both.

    python order_service.py URI create
    python order_service.py URI take anne 30 bob 12
    python order_service.py URI work totals.db
"""

import asyncio
import sqlite3
import sys
from collections.abc import Iterable, Sequence

import rhumbline
from rhumbline import Dlsn, LogClient, Topics
from rhumbline.errors import RhumblineError, TooManyRequestsError
from rhumbline.topics import Delivery, GroupConfig

TOPIC = "orders"
GROUP = "totals"
PARTITIONS = 4
CONFIG = GroupConfig(session_ttl_ms=2_000)
"""A worker that crashes is replaced within 2 s."""

Order = tuple[str, int]
"""A customer and an amount."""


async def take_orders(client: LogClient, orders: Iterable[Order]) -> None:
    """Append orders, those of one customer in their order; return when all are acknowledged."""
    async with Topics(client).writer(TOPIC) as writer:
        for customer, amount in orders:
            payload = f"{customer} {amount}".encode()
            while True:
                try:
                    writer.append(payload, key=customer.encode())
                except TooManyRequestsError:
                    await writer.flush()
                else:
                    break


async def work(client: LogClient, database: "Totals") -> None:
    """Book the orders of this worker's partitions until it is cancelled."""
    async with Topics(client).join(TOPIC, GROUP, config=CONFIG) as member:
        while True:
            try:
                async for delivery in member:
                    database.book(delivery)
                    await member.commit(delivery)
                return  # the topic was ended
            except RhumblineError as error:
                if not error.retryable:
                    raise
                print(f"retrying: {error}", file=sys.stderr)


class Totals:
    """The amount that each customer has ordered, and the position of each partition."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.executescript(
            "CREATE TABLE IF NOT EXISTS total (customer TEXT PRIMARY KEY, amount INTEGER);"
            "CREATE TABLE IF NOT EXISTS position (partition INTEGER PRIMARY KEY, dlsn TEXT)"
        )

    def book(self, delivery: Delivery) -> None:
        """Add the orders of a batch that were not booked yet, and its position, or nothing."""
        database = self._database
        database.execute("BEGIN IMMEDIATE")  # one worker at a time, also one that was replaced
        try:
            booked = self._position(delivery.partition)
            for record in delivery.batch.records():
                if booked is None or record.dlsn >= booked:
                    customer, amount = record.payload.decode().split()
                    database.execute(
                        "INSERT INTO total VALUES (?, ?) ON CONFLICT (customer) "
                        "DO UPDATE SET amount = amount + excluded.amount",
                        (customer, int(amount)),
                    )
            if booked is None or delivery.position > booked:
                database.execute(
                    "INSERT OR REPLACE INTO position VALUES (?, ?)",
                    (delivery.partition, str(delivery.position)),
                )
            database.execute("COMMIT")
        except BaseException:
            database.execute("ROLLBACK")
            raise

    def _position(self, partition: int) -> Dlsn | None:
        found = self._database.execute(
            "SELECT dlsn FROM position WHERE partition = ?", (partition,)
        ).fetchone()
        return None if found is None else Dlsn.parse(found[0])

    def all(self) -> dict[str, int]:
        """Return the total of each customer."""
        return dict(self._database.execute("SELECT customer, amount FROM total"))


async def main(uri: str, command: str, arguments: Sequence[str]) -> None:
    """Run one command."""
    async with rhumbline.connect(uri) as client:
        if command == "create":
            await Topics(client).create(TOPIC, PARTITIONS)
        elif command == "take":
            amounts = map(int, arguments[1::2])
            await take_orders(client, zip(arguments[::2], amounts, strict=True))
        else:
            await work(client, Totals(arguments[0]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
