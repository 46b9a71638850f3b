"""A namespace through proxies, with the methods of the core's ``Namespace``."""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from ...core.log.config import ReaderConfig
from ...core.log.log_context import LogContext
from ...core.log.metadata.stream_description import StreamDescription
from ...core.log.namespace import LIST_LIMIT
from ...core.log.policy import StreamPolicy
from ...core.log.read.stream_reader import StreamReader
from ...core.protocol.dlsn import Dlsn, check_position
from ...core.protocol.start import AtEventTime, AtTime, Start, check_start
from ...core.runtime.runtime import Runtime
from ..routing import stream_key
from ..rpc import methods
from ..rpc import rhumbline_pb2 as pb
from ..rpc.grpc_status import decode_position, encode_position
from ..rpc.messages import decode_description, decode_policy, encode_policy
from .channels import Channels
from .proxy_reader import ProxySource
from .proxy_schemas import ProxySchemas
from .proxy_subscriptions import ProxySubscriptions
from .proxy_writer import ProxyWriter
from .shared_reading import SharedReading
from .thin_producer import ThinProducers
from .writer_policies import WriterPolicies

Response = TypeVar("Response", bound=Message)


class Calls(Protocol):
    """The part of a client that its namespaces use."""

    context: LogContext
    producers: ThinProducers
    reader_config: ReaderConfig
    reading: SharedReading
    runtime: Runtime
    writer_policies: WriterPolicies

    def new_source(self, namespace: str, stream: str) -> ProxySource:
        """Return a source of a stream's entries, which has no call yet. Raises ClosedError."""
        ...

    @property
    def channels(self) -> Channels:
        """The connections to proxies."""
        ...

    async def call(
        self, method: methods.Method, request: Message, answer: type[Response]
    ) -> Response:
        """Make a unary call, see ``ProxyClient.call``."""
        ...


class ProxyNamespace:
    """One namespace through proxies, with the methods of the core's ``Namespace``."""

    def __init__(self, client: Calls, name: str) -> None:
        self.name = name
        self.subscriptions = ProxySubscriptions(client.call, name)
        """The named reader positions of the streams."""
        self.schemas = ProxySchemas(client.call, name)
        """The schemas of the streams' payloads."""
        self._client = client

    async def policy(self) -> StreamPolicy:
        """Return the policy of streams without one of their own. Raises NoSuchNamespaceError."""
        request = pb.DescribeNamespaceRequest(namespace=self.name)
        answer = await self._client.call(
            methods.DESCRIBE_NAMESPACE, request, pb.DescribeNamespaceResponse
        )
        return decode_policy(answer.policy)

    async def create_stream(
        self, name: str, policy: StreamPolicy | None = None, *, home_region: str = ""
    ) -> None:
        """Create a stream. Its home is ``home_region``, or the region of the proxy that serves the
        call.

        Raises StreamExistsError, NoSuchNamespaceError, InvalidArgumentError.
        """
        request = pb.CreateStreamRequest(namespace=self.name, stream=name, home_region=home_region)
        if policy is not None:
            request.policy.CopyFrom(encode_policy(policy))
        await self._client.call(methods.CREATE_STREAM, request, pb.CreateStreamResponse)

    async def delete_stream(self, name: str, *, identity: str | None = None) -> None:
        """Delete a stream with all of its segments, see ``Namespace.delete_stream``."""
        request = pb.DeleteStreamRequest(namespace=self.name, stream=name, identity=identity or "")
        await self._client.call(methods.DELETE_STREAM, request, pb.DeleteStreamResponse)

    async def truncate(self, name: str, position: Dlsn) -> Dlsn:
        """Hide all records below ``position``; return the start of the stream afterwards."""
        request = pb.TruncateStreamRequest(
            namespace=self.name, stream=name, position=encode_position(check_position(position))
        )
        answer = await self._client.call(
            methods.TRUNCATE_STREAM, request, pb.TruncateStreamResponse
        )
        return decode_position(answer.start)

    async def untruncate(self, name: str, position: Dlsn | None = None) -> Dlsn:
        """Make truncated records readable again, as the core's namespace does."""
        request = pb.UntruncateStreamRequest(namespace=self.name, stream=name)
        if position is not None:
            request.position.CopyFrom(encode_position(check_position(position)))
        answer = await self._client.call(
            methods.UNTRUNCATE_STREAM, request, pb.UntruncateStreamResponse
        )
        return decode_position(answer.start)

    async def end_stream(self, name: str) -> None:
        """End a stream permanently after all acknowledged records. Safe to repeat.

        Raises NoSuchStreamError.
        """
        request = pb.EndStreamRequest(namespace=self.name, stream=name)
        await self._client.call(methods.END_STREAM, request, pb.EndStreamResponse)

    async def set_policy(self, policy: StreamPolicy) -> None:
        """Set the namespace's policy, effective with the next segment of each stream."""
        request = pb.SetPolicyRequest(namespace=self.name, policy=encode_policy(policy))
        await self._client.call(methods.SET_POLICY, request, pb.SetPolicyResponse)

    async def set_stream_policy(self, name: str, policy: StreamPolicy | None) -> None:
        """Set a stream's policy, effective with its next segment; None: use the namespace's policy.

        Raises NoSuchStreamError.
        """
        request = pb.SetPolicyRequest(namespace=self.name, stream=name)
        if policy is not None:
            request.policy.CopyFrom(encode_policy(policy))
        await self._client.call(methods.SET_POLICY, request, pb.SetPolicyResponse)

    async def set_home_region(self, name: str, region: str) -> None:
        """Set the region whose write proxies should serve the stream. Raises NoSuchStreamError."""
        request = pb.SetHomeRegionRequest(namespace=self.name, stream=name, region=region)
        await self._client.call(methods.SET_HOME_REGION, request, pb.SetHomeRegionResponse)

    async def streams(
        self, prefix: str = "", *, after: str | None = None, limit: int = LIST_LIMIT
    ) -> list[str]:
        """Return a page of stream names; shorter than ``limit`` (at most 1000) only at the end."""
        request = pb.ListStreamsRequest(
            namespace=self.name, prefix=prefix, after=after or "", limit=limit
        )
        answer = await self._client.call(methods.LIST_STREAMS, request, pb.ListStreamsResponse)
        return list(answer.streams)

    async def describe(self, name: str) -> StreamDescription:
        """Return the description of a stream from metadata. Raises NoSuchStreamError."""
        request = pb.DescribeStreamRequest(namespace=self.name, stream=name)
        answer = await self._client.call(
            methods.DESCRIBE_STREAM, request, pb.DescribeStreamResponse
        )
        key, channels = (self.name, name), self._client.channels
        if not answer.HasField("metadata_age_ms"):  # otherwise the home is not known either
            channels.directory.set_home(key, answer.home_region)
        if answer.preferred_owner and channels.owner(key) is None:
            channels.set_owner(key, answer.preferred_owner)
        return decode_description(answer)

    async def end(self, name: str, *, fresh: bool = True) -> Dlsn:
        """Return the position after the last visible record, see ``Namespace.end``."""
        request = pb.FindEndRequest(namespace=self.name, stream=name, may_be_old=not fresh)
        answer = await self._client.call(methods.FIND_END, request, pb.FindEndResponse)
        return decode_position(answer.position)

    async def seal(self, name: str) -> None:
        """Take the stream from its writer and refuse writers, see ``Namespace.seal``."""
        request = pb.SealStreamRequest(namespace=self.name, stream=name)
        await self._client.call(methods.SEAL_STREAM, request, pb.SealStreamResponse)

    async def take_over(self, name: str) -> None:
        """Take the stream from its writer and complete its segments: a roll by hand."""
        request = pb.RollStreamRequest(namespace=self.name, stream=name)
        await self._client.call(methods.ROLL_STREAM, request, pb.RollStreamResponse)

    async def unseal(self, name: str) -> bool:
        """Let writers open a sealed stream again. Return whether it was sealed."""
        request = pb.UnsealStreamRequest(namespace=self.name, stream=name)
        answer = await self._client.call(methods.UNSEAL_STREAM, request, pb.UnsealStreamResponse)
        return answer.was_sealed

    async def open_writer(self, name: str) -> ProxyWriter:
        """Open a writer, which may coexist with other writers. Raises NoSuchStreamError."""
        policy = await self._client.writer_policies.policy_of((self.name, name))
        return ProxyWriter(
            self._client.producers,
            namespace=self.name,
            stream=name,
            policy=policy,
            end_stream=partial(self.end_stream, name),
        )

    async def open_reader(
        self,
        name: str,
        start: Start,
        *,
        on_truncated: Callable[[Dlsn, Dlsn], None] | None = None,
    ) -> StreamReader:
        """Open a reader at ``start``, as the core's namespace does."""
        check_start(start)
        source = self._client.new_source(self.name, name)
        begun = await source.open(start, advances_if_truncated=on_truncated is not None)
        position = decode_position(begun.position)
        if on_truncated is not None and begun.HasField("truncated"):
            on_truncated(decode_position(begun.truncated), position)
        key = (stream_key(self.name, name), position.stream_id)
        return StreamReader(
            self._client.reading.join(key, source),
            stream=name,
            stream_id=position.stream_id,
            config=self._client.reader_config,
            first_slot=position.slot,
            first_txid=begun.first_txid,
            first_created_ms=start.created_ms if isinstance(start, AtTime) else 0,
            first_event_ms=start.event_ms if isinstance(start, AtEventTime) else None,
            delivered=self._client.context.delivered,
            tracer=self._client.runtime.tracer,
            metadata_age_ms=begun.metadata_age_ms if begun.HasField("metadata_age_ms") else None,
        )
