"""Conversion of subscriptions to messages of rhumbline.v1."""

from ...core.log.metadata.acknowledgements import Acknowledgements
from ...core.log.metadata.subscriptions import Subscription
from ..rpc import rhumbline_pb2 as pb
from ..rpc.grpc_status import decode_position, encode_position


def encode_subscription(found: Subscription) -> pb.SubscriptionResponse:
    """Encode a subscription as a message."""
    held = found.acknowledgements
    return pb.SubscriptionResponse(
        position=encode_position(found.position),
        generation=found.generation,
        acknowledgements=None if held is None else encode_acknowledgements(held),
    )


def decode_subscription(name: str, message: pb.SubscriptionResponse) -> Subscription:
    """Decode a subscription. Raises InvalidArgumentError."""
    held = message.acknowledgements if message.HasField("acknowledgements") else None
    return Subscription(
        name,
        decode_position(message.position),
        message.generation,
        None if held is None else decode_acknowledgements(held),
    )


def encode_acknowledgements(held: Acknowledgements) -> pb.Acknowledgements:
    """Encode the acknowledgements of single records as a message."""
    return pb.Acknowledgements(
        owner=held.owner,
        delivered_to=encode_position(held.delivered_to),
        ranges=[
            pb.AcknowledgedRange(first=encode_position(first), after=encode_position(after))
            for first, after in held.ranges
        ],
        deliveries=[
            pb.DeliveryCount(position=encode_position(position), count=count)
            for position, count in held.deliveries
        ],
    )


def decode_acknowledgements(message: pb.Acknowledgements) -> Acknowledgements:
    """Decode the acknowledgements of single records. Raises InvalidArgumentError."""
    return Acknowledgements(
        message.owner,
        decode_position(message.delivered_to),
        tuple((decode_position(one.first), decode_position(one.after)) for one in message.ranges),
        tuple((decode_position(one.position), one.count) for one in message.deliveries),
    )
