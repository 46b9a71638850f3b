"""The topics of a namespace, and the namespaces of a cluster, through proxies."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ...core.log.api.log_namespaces import ListedNamespace
from ...core.log.namespace import LIST_LIMIT
from ...core.log.policy import StreamPolicy
from ...core.log.topics.topics import Topic
from ...core.protocol.bookie_id import Region, check_region
from ...core.runtime.metadata_store import MetadataStore
from ..rpc import methods
from ..rpc import rhumbline_pb2 as pb
from ..rpc.messages import encode_policy
from .channels import Channels
from .groups.group_store import ProxyGroupStore
from .proxy_subscriptions import CallProxy


class ProxyTopics:
    """The ``TopicCalls`` of a client of proxies."""

    def __init__(self, call: CallProxy, channels: Callable[[], Channels], namespace: str) -> None:
        self._call = call
        self._channels = channels
        self._namespace = namespace

    async def create(
        self, name: str, partition_count: int, policy: StreamPolicy | None = None
    ) -> Topic:
        """See ``TopicCalls.create``."""
        request = pb.CreateTopicRequest(
            namespace=self._namespace, topic=name, partition_count=partition_count
        )
        if policy is not None:
            request.policy.CopyFrom(encode_policy(policy))
        return _decode(await self._call(methods.CREATE_TOPIC, request, pb.TopicResponse))

    async def grow(
        self, name: str, partition_count: int, policy: StreamPolicy | None = None
    ) -> Topic:
        """See ``TopicCalls.grow``."""
        request = pb.GrowTopicRequest(
            namespace=self._namespace, topic=name, partition_count=partition_count
        )
        if policy is not None:
            request.policy.CopyFrom(encode_policy(policy))
        return _decode(await self._call(methods.GROW_TOPIC, request, pb.TopicResponse))

    async def groups(self, topic: Topic) -> list[str]:
        """See ``TopicCalls.groups``."""
        request = pb.ListGroupsRequest(namespace=self._namespace, topic=topic.name)
        answer = await self._call(methods.LIST_GROUPS, request, pb.ListGroupsResponse)
        return list(answer.groups)

    async def get(self, name: str) -> Topic:
        """See ``TopicCalls.get``."""
        request = pb.DescribeTopicRequest(namespace=self._namespace, topic=name)
        return _decode(await self._call(methods.DESCRIBE_TOPIC, request, pb.TopicResponse))

    async def delete(self, name: str) -> None:
        """See ``TopicCalls.delete``."""
        request = pb.DeleteTopicRequest(namespace=self._namespace, topic=name)
        await self._call(methods.DELETE_TOPIC, request, pb.DeleteTopicResponse)

    async def names(
        self, prefix: str = "", *, after: str | None = None, limit: int = LIST_LIMIT
    ) -> list[str]:
        """See ``TopicCalls.names``."""
        request = pb.ListTopicsRequest(
            namespace=self._namespace, prefix=prefix, after=after or "", limit=limit
        )
        answer = await self._call(methods.LIST_TOPICS, request, pb.ListTopicsResponse)
        return list(answer.topics)

    @asynccontextmanager
    async def group_store(self, topic: str, group: str) -> AsyncIterator[MetadataStore]:
        """See ``TopicCalls.group_store``."""
        store = ProxyGroupStore(self._channels(), self._namespace, topic, group)
        try:
            yield store
        finally:
            await store.close()


class ProxyNamespaces:
    """The ``LogNamespaces`` of a client of proxies."""

    def __init__(self, call: CallProxy) -> None:
        self._call = call

    async def create(self, name: str, policy: StreamPolicy, region: Region | None = None) -> None:
        """See ``LogNamespaces.create``."""
        request = pb.CreateNamespaceRequest(
            namespace=name, policy=encode_policy(policy), region=region or ""
        )
        await self._call(methods.CREATE_NAMESPACE, request, pb.CreateNamespaceResponse)

    async def delete(self, name: str) -> None:
        """See ``LogNamespaces.delete``."""
        request = pb.DeleteNamespaceRequest(namespace=name)
        await self._call(methods.DELETE_NAMESPACE, request, pb.DeleteNamespaceResponse)

    async def all(self, *, after: str | None = None) -> AsyncIterator[ListedNamespace]:
        """See ``LogNamespaces.all``."""
        while True:
            request = pb.ListNamespacesRequest(after=after or "", limit=LIST_LIMIT)
            answer = await self._call(methods.LIST_NAMESPACES, request, pb.ListNamespacesResponse)
            for entry in answer.namespaces:
                after = entry.namespace
                region = check_region(entry.region) if entry.region else None
                yield ListedNamespace(entry.namespace, region)
            if len(answer.namespaces) < LIST_LIMIT:
                return


def _decode(answer: pb.TopicResponse) -> Topic:
    return Topic(answer.topic, answer.partition_count, answer.first_count)
