"""The methods of the service rhumbline.v1, for the server and for clients."""

from typing import NamedTuple

from google.protobuf.message import Message

from . import rhumbline_pb2 as pb

SERVICE = "rhumbline.v1.Rhumbline"
MESSAGE_BYTES_MAX = 8 << 20
"""Maximum message size in bytes on both sides; an entry has at most 3.5 MiB."""

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
)
"""gRPC options of client channels."""

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.so_reuseport", 0),
)


class Method(NamedTuple):
    """A method of the service."""

    name: str
    request: type[Message]
    response: type[Message]
    is_stream: bool = False
    """True for bidirectional streams; other methods have one request and one response."""
    is_repeatable: bool = True
    """True if a retry after an unknown outcome has the same result (rule PRX-13)."""

    @property
    def path(self) -> str:
        """The path of the method on the wire."""
        return f"/{SERVICE}/{self.name}"


APPEND = Method("Append", pb.AppendRequest, pb.AppendResponse, is_stream=True)
READ = Method("Read", pb.ReadRequest, pb.ReadResponse, is_stream=True)
CREATE_STREAM = Method(
    "CreateStream", pb.CreateStreamRequest, pb.CreateStreamResponse, is_repeatable=False
)
DELETE_STREAM = Method(
    "DeleteStream", pb.DeleteStreamRequest, pb.DeleteStreamResponse, is_repeatable=False
)
LIST_STREAMS = Method("ListStreams", pb.ListStreamsRequest, pb.ListStreamsResponse)
DESCRIBE_STREAM = Method("DescribeStream", pb.DescribeStreamRequest, pb.DescribeStreamResponse)
TRUNCATE_STREAM = Method("TruncateStream", pb.TruncateStreamRequest, pb.TruncateStreamResponse)
UNTRUNCATE_STREAM = Method(
    "UntruncateStream", pb.UntruncateStreamRequest, pb.UntruncateStreamResponse
)
END_STREAM = Method("EndStream", pb.EndStreamRequest, pb.EndStreamResponse)
SET_POLICY = Method("SetPolicy", pb.SetPolicyRequest, pb.SetPolicyResponse)
SET_HOME_REGION = Method("SetHomeRegion", pb.SetHomeRegionRequest, pb.SetHomeRegionResponse)
SET_ACCEPTING = Method("SetAccepting", pb.SetAcceptingRequest, pb.SetAcceptingResponse)
PROBE_PROXY = Method("ProbeProxy", pb.ProbeProxyRequest, pb.ProbeProxyResponse)
GET_OWNER = Method("GetOwner", pb.GetOwnerRequest, pb.GetOwnerResponse)
RELEASE_STREAM = Method("ReleaseStream", pb.ReleaseStreamRequest, pb.ReleaseStreamResponse)
DESCRIBE_NAMESPACE = Method(
    "DescribeNamespace", pb.DescribeNamespaceRequest, pb.DescribeNamespaceResponse
)
LIST_PROXIES = Method("ListProxies", pb.ListProxiesRequest, pb.ListProxiesResponse)
DESCRIBE_HOME = Method("DescribeHome", pb.DescribeHomeRequest, pb.DescribeHomeResponse)
FIND_END = Method("FindEnd", pb.FindEndRequest, pb.FindEndResponse)
SEAL_STREAM = Method("SealStream", pb.SealStreamRequest, pb.SealStreamResponse)
UNSEAL_STREAM = Method("UnsealStream", pb.UnsealStreamRequest, pb.UnsealStreamResponse)
ROLL_STREAM = Method("RollStream", pb.RollStreamRequest, pb.RollStreamResponse)
READ_SCHEMAS = Method("ReadSchemas", pb.ReadSchemasRequest, pb.ReadSchemasResponse)
REPLACE_SCHEMAS = Method("ReplaceSchemas", pb.ReplaceSchemasRequest, pb.ReplaceSchemasResponse)
CREATE_NAMESPACE = Method(
    "CreateNamespace", pb.CreateNamespaceRequest, pb.CreateNamespaceResponse, is_repeatable=False
)
LIST_NAMESPACES = Method("ListNamespaces", pb.ListNamespacesRequest, pb.ListNamespacesResponse)
DELETE_NAMESPACE = Method(
    "DeleteNamespace", pb.DeleteNamespaceRequest, pb.DeleteNamespaceResponse, is_repeatable=False
)
CREATE_SUBSCRIPTION = Method(
    "CreateSubscription", pb.CreateSubscriptionRequest, pb.SubscriptionResponse
)
READ_SUBSCRIPTION = Method("ReadSubscription", pb.ReadSubscriptionRequest, pb.SubscriptionResponse)
COMMIT_SUBSCRIPTION = Method(
    "CommitSubscription", pb.CommitSubscriptionRequest, pb.SubscriptionResponse
)
RESET_SUBSCRIPTION = Method(
    "ResetSubscription", pb.ResetSubscriptionRequest, pb.SubscriptionResponse
)
TAKE_OVER_SUBSCRIPTION = Method(
    "TakeOverSubscription", pb.TakeOverSubscriptionRequest, pb.SubscriptionResponse
)
STORE_ACKNOWLEDGEMENTS = Method(
    "StoreAcknowledgements", pb.StoreAcknowledgementsRequest, pb.SubscriptionResponse
)
DELETE_SUBSCRIPTION = Method(
    "DeleteSubscription",
    pb.DeleteSubscriptionRequest,
    pb.DeleteSubscriptionResponse,
    is_repeatable=False,
)
LIST_SUBSCRIPTIONS = Method(
    "ListSubscriptions", pb.ListSubscriptionsRequest, pb.ListSubscriptionsResponse
)
CREATE_TOPIC = Method("CreateTopic", pb.CreateTopicRequest, pb.TopicResponse)
GROW_TOPIC = Method("GrowTopic", pb.GrowTopicRequest, pb.TopicResponse)
LIST_GROUPS = Method("ListGroups", pb.ListGroupsRequest, pb.ListGroupsResponse)
DESCRIBE_TOPIC = Method("DescribeTopic", pb.DescribeTopicRequest, pb.TopicResponse)
DELETE_TOPIC = Method(
    "DeleteTopic", pb.DeleteTopicRequest, pb.DeleteTopicResponse, is_repeatable=False
)
LIST_TOPICS = Method("ListTopics", pb.ListTopicsRequest, pb.ListTopicsResponse)
HOLD_MEMBERSHIP = Method("HoldMembership", pb.GroupRequest, pb.GroupResponse, is_stream=True)

METHODS = tuple(method for method in list(globals().values()) if isinstance(method, Method))
"""Every method above."""
