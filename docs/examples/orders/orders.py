"""An application: a desk that takes orders, and a warehouse that ships them.

There are two desks. The careful one numbers its orders, so that asking twice does no harm. The
careless one has the bug that most applications have at first: when an answer is late it asks again,
and an order that only was slow is booked twice.
"""

import asyncio

from rhumbline.client.connect import Client

STREAM = "orders"
PATIENCE_S = 1.0
DESK = b"desk".ljust(16, b".")


class CarelessDesk:
    """Takes an order by appending it; when that takes long, again."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def take(self, orders: list[bytes]) -> None:
        """Returns when every order is in the stream."""
        async with self._client.writer(STREAM) as writer:
            for order in orders:
                while True:
                    try:
                        async with asyncio.timeout(PATIENCE_S):
                            await writer.append(order)
                        break
                    except TimeoutError:
                        continue  # the bug: it may be on its way


class CarefulDesk:
    """Numbers its orders: whatever is repeated is in the stream once."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def take(self, orders: list[bytes]) -> None:
        """Returns when every order is in the stream."""
        async with self._client.writer(STREAM) as writer:
            for number, order in enumerate(orders):
                while True:
                    try:
                        async with asyncio.timeout(PATIENCE_S):
                            await writer.append_numbered(DESK, number, [order])
                        break
                    except TimeoutError:
                        continue  # the same number again: booked once


class Warehouse:
    """Ships what it reads."""

    def __init__(self) -> None:
        self.shipped: list[bytes] = []

    async def work(self, client: Client) -> None:
        """Follows the orders, for ever."""
        async with client.reader(STREAM) as reader:
            async for record in reader:
                self.shipped.append(record.payload)
