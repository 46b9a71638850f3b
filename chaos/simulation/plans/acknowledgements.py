"""The plan ``acknowledgements``: ``swarm`` with consumers that acknowledge single records.

Every host consumes the main stream with the same subscription and takes it over from the others now
and then. Applications acknowledge late, reject, forget records, or stop without storing anything.
Some records are rejected by every application, so they become dead letters. Afterwards every
record must be acknowledged or a dead letter (invariants G28 and G29).

The strings "acknowledgements" and "consumer" seed generators: they are part of a seed's identity.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from random import Random

from crc32c import crc32c

from ....core.log.metadata.subscriptions import decode_subscription
from ....core.log.topics.dead_letters import DeadLetter, StreamDeadLetters
from ....core.log.topics.record_consumer import ReceivedRecord, RecordConfig, RecordConsumer
from ....core.protocol.errors import (
    RhumblineError,
    StreamExistsError,
    SubscriptionLostError,
)
from ....core.runtime.runtime import Runtime
from ....core.runtime.tasks import Tasks
from ...checker.history import RecordDelivery, SubscriptionUse
from ...checker.run_record import RunRecord
from ..cluster import NAMESPACE, STREAM, SimClient
from ..seed_run import RESUME_S_MAX, RunPlan, SeedRun
from ..workload.workload import Applications
from ..world.sim_world import SimHost, SimWorld
from .swarm import swarm

SUBSCRIPTION = "workers"
DEAD_STREAM = "dead"
DELIVERIES_MAX = 6
_POISONED_ONE_IN = 11
_ANSWER_S = 1.0
"""Time that is allowed for each record after the faults. An application that holds one record at a
time may leave it unanswered until its delivery times out."""


def acknowledgements(seed: int) -> RunPlan:
    """Return a plan in which several hosts acknowledge single records of one subscription."""
    random = Random(f"{seed} acknowledgements")
    plan = swarm(seed)
    return replace(
        plan,
        seed=f"{seed} acknowledgements",
        settings=replace(
            plan.settings,
            policy=replace(plan.settings.policy, roll_bytes=random.choice((2_000, 50_000))),
        ),
        appends_max=150,
        run=AcknowledgementsRun,
    )


class ObservedDeadLetters(StreamDeadLetters):
    """Dead letters of a run, which are noted once they are stored."""

    use: SubscriptionUse
    apps: "ConsumingApplications"

    async def append(self, letter: DeadLetter) -> None:
        """Append a dead letter and note when it was stored."""
        await super().append(letter)
        now_ms = self.apps.history.now_ms()
        self.apps.use.dead.setdefault(letter.position.in_stream(""), now_ms)


class ConsumingApplications(Applications):
    """Applications that write the main stream and acknowledge its records one by one."""

    use: SubscriptionUse
    counts: dict[str, int]
    opened = 0

    async def run(self, host: SimHost) -> None:
        """Write while this host is the active writer, and consume records."""
        async with self.cluster.client(host) as client:
            tasks = Tasks()
            tasks.spawn(self._consume(host, client), "consume")
            await self._write(host, client)

    async def run_and_tail(self, host: SimHost) -> None:
        """Do the same as ``run``; other plans cover tailing of the main stream."""
        await self.run(host)

    def consumer(self, host: SimHost, client: SimClient, random: Random) -> RecordConsumer:
        """Return a consumer with random settings."""
        self.opened += 1
        ids = self.cluster.world.random_of(f"consumer {self.opened}")
        letters = ObservedDeadLetters(client.namespace, DEAD_STREAM)
        letters.apps = self
        config = RecordConfig(
            unacknowledged_max=random.choice((1, 3, 20)),
            timeout_ms=random.choice((300, 2_000)),
            deliveries_max=DELIVERIES_MAX,
            store_ms=random.choice((10, 200, 1_000)),
            finish_ms_max=2_000,
        )
        return RecordConsumer(
            Runtime(host.runtime().clock, ids),
            client.namespace,
            STREAM,
            SUBSCRIPTION,
            config=config,
            dead_letters=letters,
        )

    async def _consume(self, host: SimHost, client: SimClient) -> None:
        world = self.cluster.world
        random = world.random_of(f"consumer {host.name} {host.starts}")
        while not world.is_healed:
            await asyncio.sleep(4 * random.random())
            consumer = self.consumer(host, client, random)
            try:
                await self.create_dead_stream(client)
                async with asyncio.timeout(random.choice((1.0, 4.0, 8.0))):
                    await consumer.open()
                    await self.process(consumer, random, tolerance=0.7)
            except (RhumblineError, TimeoutError) as error:
                self._note(host, f"stops consuming: {type(error).__name__}: {error}")
            if random.random() < 0.4:
                await consumer.abandon()
                self._count("abandoned consumers")
                continue
            with suppress(RhumblineError):
                await consumer.aclose()

    @staticmethod
    async def create_dead_stream(client: SimClient) -> None:
        """Create the dead-letter stream unless it exists."""
        with suppress(StreamExistsError):
            await client.namespace.create_stream(DEAD_STREAM)

    async def process(self, consumer: RecordConsumer, random: Random, tolerance: float) -> None:
        """Process records until the consumer stops; ``tolerance``: the share that is answered."""
        held: list[ReceivedRecord] = []
        async for received in consumer:
            position = received.position.in_stream("")
            now_ms = self.history.now_ms()
            self.use.deliveries.append(RecordDelivery(now_ms, position, received.deliveries))
            self._count("redeliveries" if received.deliveries > 1 else "first deliveries")
            held.append(received)
            await asyncio.sleep(random.choice((0, 0, 0.002, 0.05)))
            for one in random.sample(held, random.randint(0, len(held))):
                held.remove(one)
                if random.random() < tolerance:
                    self._answer(consumer, one, random)

    def _answer(self, consumer: RecordConsumer, received: ReceivedRecord, random: Random) -> None:
        if crc32c(received.payload) % _POISONED_ONE_IN == 0:
            consumer.reject(received.position, delay_ms=random.choice((0, 0, 100)), reason="poison")
            return
        position = received.position.in_stream("")
        self.use.acknowledged.setdefault(position, self.history.now_ms())
        consumer.acknowledge(received.position)

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1


class AcknowledgementsRun(SeedRun):
    """A run of ``acknowledgements``: afterwards everything is acknowledged or a dead letter."""

    apps: ConsumingApplications

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        super().__init__(world, plan)
        self.apps = ConsumingApplications(self.cluster, self.history, plan.habits)
        self.apps.use = self.use = SubscriptionUse(DELIVERIES_MAX)
        self.apps.counts = {}

    async def _finish_workload(self, successor: SimHost) -> None:
        await self._run_within_bound(
            "V7",
            successor,
            "acknowledging everything",
            self._acknowledge_everything,
            bound_s=RESUME_S_MAX + _ANSWER_S * self.plan.appends_max,
        )

    async def _acknowledge_everything(self, host: SimHost) -> None:
        random = Random(0)
        end = self._stream_end()
        async with self.cluster.client(host) as client:
            await self.apps.create_dead_stream(client)
            while True:
                consumer = self.apps.consumer(host, client, random)
                try:
                    async with asyncio.timeout(5):
                        await consumer.open()
                        await self.apps.process(consumer, random, tolerance=1.0)
                except (TimeoutError, SubscriptionLostError):
                    # An application that began before the faults ended may still take it over.
                    with suppress(SubscriptionLostError):
                        await consumer.aclose()
                stored = await client.namespace.subscriptions.read(STREAM, SUBSCRIPTION)
                if (stored.position.lssn, stored.position.entry_id + 1) >= end[:2]:
                    return

    def record(self) -> RunRecord:
        """Return the record of the run, with the versions of the subscription."""
        node = f"/rhumbline/namespaces/{NAMESPACE}/streams/{STREAM}/subscriptions/{SUBSCRIPTION}"
        self.use.versions = [
            (commit.at_ms, decode_subscription(SUBSCRIPTION, commit.data))
            for commit in self.world.metadata.tree.history
            if commit.path == node and commit.data is not None
        ]
        record = super().record()
        record.subscription = self.use
        return record

    def _states(self) -> dict[str, int]:
        counts = {**self.apps.counts, "dead letters": len(self.use.dead)}
        counts["stored states"] = len(self.use.versions)
        return super()._states() | counts
