"""Executes the plan ``groups``: a topic that is written and read through proxies."""

import asyncio
from contextlib import suppress
from random import Random

from ....client.topics import Topics
from ....core.log.metadata.paths import StreamPaths, TopicPaths
from ....core.log.metadata.subscriptions import decode_subscription
from ....core.log.topics.consumer_group import Delivery, GroupMember
from ....core.log.topics.group_membership import GroupConfig
from ....core.log.topics.topic_writer import TopicWriter
from ....core.log.topics.topics import Topic
from ....core.log.write.batch import Append
from ....core.protocol.errors import NoSuchStreamError, RhumblineError
from ....core.protocol.start import EARLIEST
from ....core.runtime.tasks import Tasks
from ....proxies.client.groups.group_store import ProxyGroupStore
from ....proxies.client.proxy_client import ProxyClient
from ...checker.applications.topic_use import ClaimVersion, GroupDelivery, TopicRecord, TopicUse
from ...checker.run_record import RunRecord
from ..cluster import NAMESPACE
from ..seed_run import RunPlan
from ..workload.workload import describe_error
from ..world.sim_world import SimHost, SimWorld
from .proxy_plan_run import ProxyPlanRun
from .proxy_run import ALL_HOSTS, ThinApplications

TOPIC, GROUP = "orders", "billing"
PARTITIONS = 3
PARTITIONS_MAX = 5
SESSION_TTL_MS = (1_000, 2_000)
_RECORDS_MAX = 250
_KEYS = [b"key %d" % number for number in range(7)]
_LEARNS_MS = 500
"""Time after a fault in which a member learns of what happened to its session meanwhile."""
_UNNOTICED = ("expire-sessions", "cut-region")
"""Faults that end sessions of a proxy which still answers its clients."""


class GroupApplications(ThinApplications):
    """Applications that also write a topic and read it as members of one group."""

    use: TopicUse
    counts: dict[str, int]

    async def _work(self, host: SimHost, client: ProxyClient) -> None:
        tasks = Tasks()
        tasks.spawn(self._produce_keyed(host, Topics(client)), "producer of the topic")
        tasks.spawn(self._consume(host, client), "member of the group")
        await super()._work(host, client)

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    # --- writing --------------------------------------------------------------------------------

    @property
    def _may_write(self) -> bool:
        return self.active_writer == ALL_HOSTS and len(self.use.keys) < _RECORDS_MAX

    async def _produce_keyed(self, host: SimHost, topics: Topics) -> None:
        random = self.cluster.world.random_of(f"topic writer {host.name} {host.starts}")
        while True:
            if not self._may_write:
                await asyncio.sleep(0.1)
                continue
            try:
                topic = await _open(topics)
                if random.random() < 0.3 and topic.partition_count < PARTITIONS_MAX:
                    await topics.grow(TOPIC, topic.partition_count + 1)
                    self._count("growths")
                async with topics.writer(TOPIC) as writer:
                    await self._write_keyed(writer, random)
            except RhumblineError as error:
                self._note(host, f"cannot write the topic: {describe_error(error)}")
                await asyncio.sleep(0.2)

    async def _write_keyed(self, writer: TopicWriter, random: Random) -> None:
        self._count("topic writers")
        number_of_writer, tasks = self.counts["topic writers"], Tasks()
        for number in range(random.choice((5, 30))):
            if not self._may_write:
                return
            record, key = TopicRecord(number_of_writer, number), random.choice(_KEYS)
            self.use.keys[record] = key
            append = writer.append(b"%d.%d" % record, key=key)
            tasks.spawn(self._record_position(record, append), "record the outcome")
            await asyncio.sleep(random.random() * 0.2)

    async def _record_position(self, record: TopicRecord, append: Append) -> None:
        with suppress(RhumblineError):  # it may be in the topic, or not
            self.use.acknowledged[record] = (await append).dlsn

    # --- reading --------------------------------------------------------------------------------

    async def _consume(self, host: SimHost, client: ProxyClient) -> None:
        random = self.cluster.world.random_of(f"member {host.name} {host.starts}")
        while True:
            store = ProxyGroupStore(client.channels, NAMESPACE, TOPIC, GROUP)
            try:
                topic = await _open(Topics(client))
                member = _member(client, store, topic, random)
                await member.__aenter__()
                try:
                    async with asyncio.timeout(random.choice((1.5, 5.0, 12.0))):
                        await self._process(member, random)
                finally:
                    await member.aclose()
            except (RhumblineError, TimeoutError) as error:
                self._note(host, f"leaves the group: {describe_error(error)}")
            await store.close()
            self._count("memberships")
            await asyncio.sleep(random.random() * 0.3)

    async def _process(self, member: GroupMember, random: Random) -> None:
        async for delivery in member:
            self._note_delivery(member, delivery)
            if self.cluster.world.is_healed:
                await member.commit(delivery)
                continue
            await asyncio.sleep(random.choice((0, 0.01, 0.2, 0.5)))
            if random.random() < 0.8:
                await member.commit(delivery)

    def _note_delivery(self, member: GroupMember, delivery: Delivery) -> None:
        positions = tuple(record.dlsn.in_stream("") for record in delivery.batch.records())
        self.use.deliveries.append(
            GroupDelivery(self.history.now_ms(), member._id, delivery.partition, positions)
        )
        self._count("group deliveries")


def _member(
    client: ProxyClient, store: ProxyGroupStore, topic: Topic, random: Random
) -> GroupMember:
    config = GroupConfig(
        session_ttl_ms=random.choice(SESSION_TTL_MS),
        handover_ms_max=random.choice((0, 500)),
        recheck_ms=2_000,
    )
    return GroupMember(client.runtime, store, client.namespace(), topic, GROUP, config=config)


async def _open(topics: Topics) -> Topic:
    """Return the topic; create it if it does not exist."""
    try:
        return await topics.get(TOPIC)
    except NoSuchStreamError:
        return await topics.create(TOPIC, PARTITIONS)


class GroupRun(ProxyPlanRun):
    """A run of ``groups``: afterwards the group has read everything."""

    thin_applications = GroupApplications
    thin: GroupApplications

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        super().__init__(world, plan)
        self.thin.use = self.use = TopicUse()
        self.thin.counts = {}

    async def _finish_workload(self, successor: SimHost) -> None:
        await self._run_within_bound("V5", successor, "reading the topic", self._read_topic)
        await self._run_within_bound("V5", successor, "the group's reading", self._await_group)

    async def _read_topic(self, host: SimHost) -> None:
        """Read all partitions without proxies."""
        async with self.cluster.client(host) as client:
            for partition in range(PARTITIONS_MAX):
                stream = f"{TOPIC}.{partition}"
                records = self.use.contents[partition] = []
                try:
                    end = await client.namespace.end(stream)
                except NoSuchStreamError:
                    return
                reader = await client.namespace.open_reader(stream, EARLIEST)
                while (batch := await reader.next_batch(until=end)) is not None:
                    for record in batch.records():
                        writer, number = record.payload.split(b".")
                        position = record.dlsn.in_stream("")
                        records.append((position, TopicRecord(int(writer), int(number))))
                await reader.aclose()

    async def _await_group(self, host: SimHost) -> None:
        """Wait until the group has passed the last record of each partition."""
        async with self.cluster.client(host) as client:
            for partition, records in self.use.contents.items():
                stream = f"{TOPIC}.{partition}"
                while records:
                    with suppress(RhumblineError):  # there is no subscription yet
                        found = await client.namespace.subscriptions.read(stream, GROUP)
                        if found.position > records[-1][0]:
                            break
                    await asyncio.sleep(0.2)

    # --- the record for the checker -------------------------------------------------------------

    def record(self) -> RunRecord:
        """Return the record of the run, with the claims and positions of the group."""
        use = self.use
        use.unnoticed = self._unnoticed()
        for partition in range(PARTITIONS_MAX):
            claim = TopicPaths(NAMESPACE, TOPIC).claim(GROUP, partition)
            stored = StreamPaths(NAMESPACE, f"{TOPIC}.{partition}").subscription(GROUP)
            use.claims[partition], use.stored[partition] = [], []
            for commit in self.world.metadata.tree.history:
                if commit.path == claim:
                    holder = None if commit.data is None else commit.data.decode()
                    use.claims[partition].append(ClaimVersion(commit.at_ms, holder))
                elif commit.path == stored and commit.data is not None:
                    position = decode_subscription(GROUP, commit.data).position.in_stream("")
                    use.stored[partition].append((commit.at_ms, position))
        record = super().record()
        record.topic = use
        return record

    def _unnoticed(self) -> list[tuple[float, float]]:
        """Return the periods in which a member may not notice the end of its session."""
        return [
            (at_ms, at_ms + fault.lasts_ms + _LEARNS_MS)
            for at_ms, fault in self.cluster.faults_begun
            if fault.kind in _UNNOTICED
            or (fault.kind == "pause" and fault.target.startswith("app-"))
        ]

    def _states(self) -> dict[str, int]:
        return super()._states() | self.thin.counts
