"""The calls about topics and subscriptions: any proxy serves them from metadata (rule PRX-23)."""

from collections.abc import Callable
from contextlib import suppress

from ...core.log.metadata.acknowledgements import UNACKNOWLEDGED_LIMIT
from ...core.log.metadata.subscriptions import Subscription
from ...core.log.namespace import LIST_LIMIT, Namespace
from ...core.log.topics.group_state import list_groups
from ...core.log.topics.topics import (
    Topic,
    create_topic,
    delete_topic,
    grow_topic,
    list_topics,
    open_topic,
)
from ...core.protocol.errors import InvalidArgumentError, RhumblineError
from ..balance.deleted_streams import forget_deleted
from ..quotas.proxy_quotas import ProxyQuotas
from ..rpc import rhumbline_pb2 as pb
from ..rpc.grpc_status import decode_position
from ..rpc.messages import decode_policy
from ..write.claims import Claims
from .subscription_messages import decode_acknowledgements, encode_subscription

ITEMS_MAX = 2 * UNACKNOWLEDGED_LIMIT
"""Maximum number of ranges and numbers of deliveries of one subscription."""


def page_size(limit: int) -> int:
    """Return the number of names of a page for the limit in a request."""
    return min(max(limit, 0) or LIST_LIMIT, LIST_LIMIT)


class TopicAdministration:
    """Serves one request per call; errors are raised as RhumblineError."""

    def __init__(
        self, namespaces: Callable[[str], Namespace], home_region: str, quotas: ProxyQuotas
    ) -> None:
        """``home_region`` is that of the streams of a new topic, the region of this proxy."""
        self._namespaces = namespaces
        self._home_region = home_region
        self._quotas = quotas

    # --- topics ---------------------------------------------------------------------------------

    async def create_topic(self, request: pb.CreateTopicRequest) -> pb.TopicResponse:
        """Create a topic.

        Raises InvalidArgumentError, NoSuchNamespaceError, LimitExceededError.
        """
        namespace = self._namespaces(request.namespace)
        await self._quotas.check_new_streams(namespace, namespace.name, request.partition_count)
        policy = decode_policy(request.policy) if request.HasField("policy") else None
        topic = await create_topic(
            namespace.store, namespace, request.topic, request.partition_count, policy
        )
        await self._set_homes(namespace, topic)
        return _topic_response(topic)

    async def grow_topic(self, request: pb.GrowTopicRequest) -> pb.TopicResponse:
        """Add partitions. Raises NoSuchStreamError, InvalidArgumentError, LimitExceededError."""
        namespace = self._namespaces(request.namespace)
        before = await open_topic(namespace.store, namespace, request.topic)
        added = request.partition_count - len(before.streams)
        if added > 0:
            await self._quotas.check_new_streams(namespace, namespace.name, added)
        policy = decode_policy(request.policy) if request.HasField("policy") else None
        topic = await grow_topic(
            namespace.store, namespace, request.topic, request.partition_count, policy
        )
        await self._set_homes(namespace, topic)
        return _topic_response(topic)

    async def list_groups(self, request: pb.ListGroupsRequest) -> pb.ListGroupsResponse:
        """List the groups of a topic. Raises NoSuchStreamError."""
        namespace = self._namespaces(request.namespace)
        topic = await open_topic(namespace.store, namespace, request.topic)
        return pb.ListGroupsResponse(groups=await list_groups(namespace.store, namespace, topic))

    async def _set_homes(self, namespace: Namespace, topic: Topic) -> None:
        if self._home_region:
            claims = Claims(namespace.store)
            for stream in topic.streams:
                if not await claims.home(namespace.name, stream):
                    await claims.set_home(namespace.name, stream, self._home_region)

    async def describe_topic(self, request: pb.DescribeTopicRequest) -> pb.TopicResponse:
        """Describe a topic. Raises NoSuchStreamError."""
        namespace = self._namespaces(request.namespace)
        return _topic_response(await open_topic(namespace.store, namespace, request.topic))

    async def delete_topic(self, request: pb.DeleteTopicRequest) -> pb.DeleteTopicResponse:
        """Delete a topic. Raises NoSuchStreamError, NotEmptyError."""
        namespace = self._namespaces(request.namespace)
        topic = await open_topic(namespace.store, namespace, request.topic)
        await delete_topic(namespace.store, namespace, request.topic)
        claims = Claims(namespace.store)
        for stream in topic.streams:
            await claims.delete_home(namespace.name, stream)
            with suppress(RhumblineError):  # the balancer removes what is left
                await forget_deleted(namespace.store, namespace.name, stream)
        return pb.DeleteTopicResponse()

    async def list_topics(self, request: pb.ListTopicsRequest) -> pb.ListTopicsResponse:
        """List a page of names."""
        namespace = self._namespaces(request.namespace)
        names = await list_topics(
            namespace.store,
            namespace,
            request.prefix,
            after=request.after or None,
            limit=page_size(request.limit),
        )
        return pb.ListTopicsResponse(topics=names)

    # --- subscriptions --------------------------------------------------------------------------

    async def create_subscription(
        self, request: pb.CreateSubscriptionRequest
    ) -> pb.SubscriptionResponse:
        """Create a subscription. Raises NoSuchStreamError, InvalidPositionError."""
        subscriptions = self._namespaces(request.namespace).subscriptions
        return encode_subscription(
            await subscriptions.create(
                request.stream, request.subscription, decode_position(request.position)
            )
        )

    async def read_subscription(
        self, request: pb.ReadSubscriptionRequest
    ) -> pb.SubscriptionResponse:
        """Return a position. Raises NoSuchSubscriptionError."""
        subscriptions = self._namespaces(request.namespace).subscriptions
        return encode_subscription(await subscriptions.read(request.stream, request.subscription))

    async def commit_subscription(
        self, request: pb.CommitSubscriptionRequest
    ) -> pb.SubscriptionResponse:
        """Move a position forward. Raises as ``SubscriptionStore.commit``."""
        subscriptions = self._namespaces(request.namespace).subscriptions
        position = decode_position(request.position)
        began_with = Subscription(request.subscription, position, request.generation)
        return encode_subscription(await subscriptions.commit(began_with, request.stream, position))

    async def reset_subscription(
        self, request: pb.ResetSubscriptionRequest
    ) -> pb.SubscriptionResponse:
        """Set a position. Raises NoSuchSubscriptionError, InvalidPositionError."""
        subscriptions = self._namespaces(request.namespace).subscriptions
        return encode_subscription(
            await subscriptions.reset(
                request.stream, request.subscription, decode_position(request.position)
            )
        )

    async def delete_subscription(
        self, request: pb.DeleteSubscriptionRequest
    ) -> pb.DeleteSubscriptionResponse:
        """Delete a subscription. Raises NoSuchSubscriptionError."""
        subscriptions = self._namespaces(request.namespace).subscriptions
        await subscriptions.delete(request.stream, request.subscription)
        return pb.DeleteSubscriptionResponse()

    async def take_over_subscription(
        self, request: pb.TakeOverSubscriptionRequest
    ) -> pb.SubscriptionResponse:
        """Make a consumer the owner of acknowledgements. Raises NoSuchSubscriptionError."""
        subscriptions = self._namespaces(request.namespace).subscriptions
        return encode_subscription(
            await subscriptions.take_over(request.stream, request.subscription, request.owner)
        )

    async def store_acknowledgements(
        self, request: pb.StoreAcknowledgementsRequest
    ) -> pb.SubscriptionResponse:
        """Store acknowledgements of single records. Raises as ``SubscriptionStore.store``."""
        subscriptions = self._namespaces(request.namespace).subscriptions
        acknowledgements = decode_acknowledgements(request.acknowledgements)
        if len(acknowledgements.ranges) + len(acknowledgements.deliveries) > ITEMS_MAX:
            raise InvalidArgumentError(f"more than {ITEMS_MAX} ranges and numbers of deliveries")
        position = decode_position(request.position)
        began_with = Subscription(request.subscription, position, request.generation)
        return encode_subscription(
            await subscriptions.store(began_with, request.stream, position, acknowledgements)
        )

    async def list_subscriptions(
        self, request: pb.ListSubscriptionsRequest
    ) -> pb.ListSubscriptionsResponse:
        """List a page of names."""
        subscriptions = self._namespaces(request.namespace).subscriptions
        names = await subscriptions.names(
            request.stream, after=request.after or None, limit=page_size(request.limit)
        )
        return pb.ListSubscriptionsResponse(subscriptions=names)


def _topic_response(topic: Topic) -> pb.TopicResponse:
    return pb.TopicResponse(
        topic=topic.name,
        partition_count=topic.partition_count,
        first_count=topic.first_count,
    )
