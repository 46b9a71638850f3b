"""The policy of a topic is that of all of its partitions."""

import pytest

from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.topics.topics import create_topic, set_topic_policy
from rhumbline.core.protocol.errors import NoSuchStreamError
from rhumbline.tests.support.fakes.log_world import LogWorld


async def test_policy_of_a_topic_is_set_for_all_partitions(world: LogWorld) -> None:
    topic = await create_topic(world.store, world.namespace, "orders", 3)
    policy = StreamPolicy(retention_ms=5, archive_retention_ms=7, purge_grace_ms=9)
    await set_topic_policy(world.namespace, topic, policy)
    for stream in topic.streams:
        found = await world.namespace.describe(stream)
        assert (found.policy, found.follows_namespace) == (policy, False)
    await set_topic_policy(world.namespace, topic, None)
    for stream in topic.streams:
        assert (await world.namespace.describe(stream)).follows_namespace
    await world.namespace.delete_stream("orders.1")
    with pytest.raises(NoSuchStreamError):
        await set_topic_policy(world.namespace, topic, policy)
