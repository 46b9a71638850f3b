"""Subscriptions through proxies, with the methods of the core's ``SubscriptionStore``."""

from typing import Protocol, TypeVar

from google.protobuf.message import Message

from ...core.log.metadata.acknowledgements import Acknowledgements
from ...core.log.metadata.subscriptions import Subscription
from ...core.log.namespace import LIST_LIMIT
from ...core.protocol.dlsn import Dlsn, check_position
from ...core.protocol.errors import NoSuchSubscriptionError
from ..rpc import methods
from ..rpc import rhumbline_pb2 as pb
from ..rpc.grpc_status import encode_position
from ..topics.subscription_messages import decode_subscription, encode_acknowledgements

Response = TypeVar("Response", bound=Message)


class CallProxy(Protocol):
    """Function that makes a unary call, see ``ProxyClient.call``."""

    async def __call__(
        self, method: methods.Method, request: Message, answer: type[Response], /
    ) -> Response:
        """Make the call."""
        ...


class ProxySubscriptions:
    """The subscriptions of the streams of one namespace (rule STR-24)."""

    def __init__(self, call: CallProxy, namespace: str) -> None:
        self._call = call
        self._namespace = namespace

    async def create(self, stream: str, name: str, position: Dlsn) -> Subscription:
        """See ``SubscriptionStore.create``."""
        request = pb.CreateSubscriptionRequest(
            namespace=self._namespace,
            stream=stream,
            subscription=name,
            position=encode_position(check_position(position)),
        )
        answer = await self._call(methods.CREATE_SUBSCRIPTION, request, pb.SubscriptionResponse)
        return decode_subscription(name, answer)

    async def read(self, stream: str, name: str) -> Subscription:
        """See ``SubscriptionStore.read``."""
        request = pb.ReadSubscriptionRequest(
            namespace=self._namespace, stream=stream, subscription=name
        )
        answer = await self._call(methods.READ_SUBSCRIPTION, request, pb.SubscriptionResponse)
        return decode_subscription(name, answer)

    async def commit(self, subscription: Subscription, stream: str, position: Dlsn) -> Subscription:
        """See ``SubscriptionStore.commit``."""
        request = pb.CommitSubscriptionRequest(
            namespace=self._namespace,
            stream=stream,
            subscription=subscription.name,
            position=encode_position(check_position(position)),
            generation=subscription.generation,
        )
        answer = await self._call(methods.COMMIT_SUBSCRIPTION, request, pb.SubscriptionResponse)
        return decode_subscription(subscription.name, answer)

    async def take_over(self, stream: str, name: str, owner: str) -> Subscription:
        """See ``SubscriptionStore.take_over``."""
        request = pb.TakeOverSubscriptionRequest(
            namespace=self._namespace, stream=stream, subscription=name, owner=owner
        )
        answer = await self._call(methods.TAKE_OVER_SUBSCRIPTION, request, pb.SubscriptionResponse)
        return decode_subscription(name, answer)

    async def store(
        self,
        subscription: Subscription,
        stream: str,
        position: Dlsn,
        acknowledgements: Acknowledgements,
    ) -> Subscription:
        """See ``SubscriptionStore.store``."""
        request = pb.StoreAcknowledgementsRequest(
            namespace=self._namespace,
            stream=stream,
            subscription=subscription.name,
            position=encode_position(check_position(position)),
            generation=subscription.generation,
            acknowledgements=encode_acknowledgements(acknowledgements),
        )
        answer = await self._call(methods.STORE_ACKNOWLEDGEMENTS, request, pb.SubscriptionResponse)
        return decode_subscription(subscription.name, answer)

    async def reset(self, stream: str, name: str, position: Dlsn) -> Subscription:
        """See ``SubscriptionStore.reset``."""
        request = pb.ResetSubscriptionRequest(
            namespace=self._namespace,
            stream=stream,
            subscription=name,
            position=encode_position(check_position(position)),
        )
        answer = await self._call(methods.RESET_SUBSCRIPTION, request, pb.SubscriptionResponse)
        return decode_subscription(name, answer)

    async def delete(self, stream: str, name: str) -> None:
        """See ``SubscriptionStore.delete``."""
        request = pb.DeleteSubscriptionRequest(
            namespace=self._namespace, stream=stream, subscription=name
        )
        await self._call(methods.DELETE_SUBSCRIPTION, request, pb.DeleteSubscriptionResponse)

    async def names(
        self, stream: str, *, after: str | None = None, limit: int | None = None
    ) -> list[str]:
        """See ``SubscriptionStore.names``."""
        found: list[str] = []
        while limit is None or len(found) < limit:
            size = LIST_LIMIT if limit is None else min(limit - len(found), LIST_LIMIT)
            request = pb.ListSubscriptionsRequest(
                namespace=self._namespace,
                stream=stream,
                after=found[-1] if found else after or "",
                limit=size,
            )
            answer = await self._call(
                methods.LIST_SUBSCRIPTIONS, request, pb.ListSubscriptionsResponse
            )
            found += answer.subscriptions
            if len(answer.subscriptions) < size:
                break
        return found

    async def slowest(self, stream: str) -> Dlsn | None:
        """Return the lowest stored position; None if there are no subscriptions."""
        lowest: Dlsn | None = None
        for name in await self.names(stream):
            try:
                position = (await self.read(stream, name)).position
            except NoSuchSubscriptionError:
                continue  # deleted meanwhile
            lowest = position if lowest is None else min(lowest, position)
        return lowest
