"""An example application: a desk that takes orders, and a warehouse that ships them.

There are two desks. ``CarefulDesk`` numbers its orders, so a retry is harmless. ``CarelessDesk``
has a common bug: when an acknowledgement is late it appends the order again, and an order that was
only slow is booked twice.
"""

import asyncio

from rhumbline import Client

STREAM = "orders"
APPEND_TIMEOUT_S = 1.0
DESK = b"desk".ljust(16, b".")


class CarelessDesk:
    """Appends each order and retries after a timeout."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def take(self, orders: list[bytes]) -> None:
        """Append the orders and return when all of them are in the stream."""
        async with self._client.writer(STREAM) as writer:
            for order in orders:
                while True:
                    try:
                        async with asyncio.timeout(APPEND_TIMEOUT_S):
                            await writer.append(order)
                        break
                    except TimeoutError:
                        continue  # the bug: the first append may still succeed


class CarefulDesk:
    """Numbers its orders, so that a retried order is in the stream once."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def take(self, orders: list[bytes]) -> None:
        """Append the orders and return when all of them are in the stream."""
        async with self._client.writer(STREAM) as writer:
            for number, order in enumerate(orders):
                while True:
                    try:
                        async with asyncio.timeout(APPEND_TIMEOUT_S):
                            await writer.append_numbered(DESK, number, [order])
                        break
                    except TimeoutError:
                        continue  # retry with the same number: the order is booked once


class Warehouse:
    """Ships the orders that it reads."""

    def __init__(self) -> None:
        self.shipped: list[bytes] = []

    async def work(self, client: Client) -> None:
        """Tail the stream and ship its orders until cancelled."""
        async with client.reader(STREAM) as reader:
            async for record in reader:
                self.shipped.append(record.payload)
