"""An example application: payments are published by key, and subscribers set bad ones aside.

The publisher appends to a topic; all payments of an account are in one partition, in order. Any
number of subscribers join a group and share the partitions. A payment is acknowledged after it was
booked; if booking fails, it is delivered again. A payment that failed too often goes to a topic of
dead letters, where a person can look at it, and does not hold up the ones after it. Bookings are
idempotent, since a payment may be delivered again after a crash.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rhumbline import Client, Dlsn
from rhumbline.errors import PayloadError
from rhumbline.topics import RecordConfig, Topics
from rhumbline.typed import JsonCodec

TOPIC = "payments"
PARTITIONS = 4
GROUP = "bookkeeping"
DEAD_LETTERS = "payments-dead"
DELIVERIES_MAX = 3
RETRY_MS = 500


@dataclass(frozen=True)
class Payment:
    """A payment to an account, in cents."""

    account: str
    cents: int


PAYMENTS = JsonCodec(Payment)


class Books:
    """The balances, with the positions of the payments in them, so that none is booked twice."""

    def __init__(self) -> None:
        self.balances: dict[str, int] = {}
        self._booked: set[tuple[int, Dlsn]] = set()

    def book(self, partition: int, position: Dlsn, payment: Payment) -> None:
        """Add a payment, unless it is in the balances already. Raises ValueError."""
        if payment.cents <= 0:
            raise ValueError(f"a payment of {payment.cents} cents")
        if (partition, position) not in self._booked:
            self._booked.add((partition, position))
            self.balances[payment.account] = self.balances.get(payment.account, 0) + payment.cents


async def prepare(client: Client) -> None:
    """Create the topic and the dead-letter stream. Safe to repeat after a failure of the first."""
    await Topics(client).create(TOPIC, PARTITIONS)
    await Topics(client).create(DEAD_LETTERS, PARTITIONS)


async def publish(client: Client, payments: Sequence[Payment]) -> None:
    """Append payments, each in the partition of its account, and wait until all are stored."""
    async with Topics(client).writer(TOPIC) as writer:
        for payment in payments:
            writer.append(PAYMENTS.encode(payment), key=payment.account.encode())
        await writer.flush()


async def subscribe(client: Client, books: Books) -> None:
    """Book payments until cancelled."""
    records = RecordConfig(deliveries_max=DELIVERIES_MAX)
    topics = Topics(client)
    async with topics.join_records(
        TOPIC, GROUP, records=records, dead_letters=DEAD_LETTERS
    ) as member:
        async for received in member:
            try:
                payment = PAYMENTS.decode(received.payload)
                books.book(received.partition, received.position, payment)
            except (PayloadError, ValueError) as error:
                member.reject(received, delay_ms=RETRY_MS, reason=str(error))
            else:
                member.acknowledge(received)
