"""The thin client: the core client's calls, made through proxies of the client's region (PRX-13).

async with rhumbline.connect("grpc://proxy-1:4281,proxy-2:4281") as client:
    async with client.writer("orders") as writer:
        await writer.append(b"...")
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Self, TypeVar

from google.protobuf.message import Message

from ...core.log.close_at_exit import ClosesAtExit
from ...core.log.config import ReaderConfig
from ...core.log.log_context import LogContext
from ...core.log.metadata.stream_description import StreamDescription
from ...core.log.namespace import LIST_LIMIT
from ...core.log.policy import StreamPolicy
from ...core.log.read.stream_reader import StreamReader
from ...core.protocol.dlsn import Dlsn, check_position
from ...core.protocol.errors import (
    ClosedError,
    DeadlineExceededError,
    NotOwnerError,
    RhumblineError,
    UnavailableError,
    UnknownOutcomeError,
)
from ...core.protocol.start import EARLIEST, AtEventTime, AtTime, Start, check_start
from ...core.runtime.home_loop import HomeLoop
from ...core.runtime.primitives.backoff import Backoff
from ...core.runtime.runtime import Runtime
from ..proxy_uri import parse_proxies
from ..rpc import methods
from ..rpc import rhumbline_pb2 as pb
from ..rpc.grpc_status import decode_position, encode_position, is_retryable
from ..rpc.messages import decode_description, decode_policy, encode_policy
from ..rpc.rpc_transport import RpcTransport
from .channels import Channels
from .discovery.config import DiscoveryConfig
from .discovery.list_refresher import ListRefresher
from .discovery.proxy_directory import ProxyDirectory
from .discovery.seeds import NoResolver, SeedResolver
from .proxy_reader import ProxySource
from .proxy_writer import ProxyWriter
from .thin_producer import TIMEOUT_MS, ThinProducer, ThinProducers

_TRY_SECONDS_MAX = 5.0
"""Maximum time of one attempt at one proxy, which may have been stopped."""
_PAUSE_MS = 100
_REDIRECTS_AT_ONCE = 2
"""Number of redirects that a call follows without a pause."""
Response = TypeVar("Response", bound=Message)


class ProxyClient(ClosesAtExit):
    """A process's connections to proxies. Use it with ``async with``, in one event loop."""

    def __init__(
        self,
        uri: str,
        runtime: Runtime,
        calls: RpcTransport,
        *,
        namespace: str = "default",
        timeout_ms: int = TIMEOUT_MS,
        reader: ReaderConfig | None = None,
        discovery: DiscoveryConfig | None = None,
        region: str = "",
        resolver: SeedResolver | None = None,
    ) -> None:
        """``region`` is that of the client; "" stands for the region of the nearest proxy.

        Without ``discovery`` the settings are the default ones, and without ``resolver`` names are
        left to the transport.
        """
        self.uri = uri
        self.region = region
        self.discovery = discovery or DiscoveryConfig()
        self.runtime = runtime
        self.timeout_ms = timeout_ms
        self.reader_config = reader or ReaderConfig()
        self._parsed_uri = parse_proxies(uri)
        self._resolver = resolver or NoResolver()
        self._calls = calls
        self._namespace_name = namespace
        self._channels: Channels | None = None
        self._home: HomeLoop | None = None
        self.context = LogContext()
        """The counts of what is sent and delivered."""
        self.producers = ThinProducers(self._new_producer)
        """The producers that the client's writers share."""

    async def __aenter__(self) -> Self:
        """Open the client; it connects with the first call."""
        uri, random = self._parsed_uri, self.runtime.random
        seeds = () if uri.is_srv else uri.names
        directory = ProxyDirectory(seeds, random, self.discovery, region=self.region)
        refresher = None
        if self.discovery.refresh_ms:
            refresher = ListRefresher(
                directory, self._calls, uri, self._resolver, self.discovery, random
            )
        self._channels = Channels(directory, self._calls, refresher)
        self._home = HomeLoop()
        return self

    def statistics(self) -> dict[str, Any]:
        """Return the counters of this client, by layer and name; of streams also when closed."""
        found: dict[str, Any] = {"streams": self.context.statistics()}
        if self._channels is not None:
            found["discovery"] = self._channels.statistics()
        return found

    async def _close_at_exit(self) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections. Safe to repeat."""
        channels, self._channels = self._channels, None
        self.producers = ThinProducers(self._new_producer)
        if channels is not None:
            await channels.aclose()

    @property
    def channels(self) -> Channels:
        """The connections.

        Raises ClosedError outside of ``async with``, and InvalidArgumentError in another event loop
        than that of ``async with``.
        """
        if self._channels is None or self._home is None:
            raise ClosedError("the client is not open: use it with `async with connect(...)`")
        self._home.check("the client")
        return self._channels

    def _new_producer(self, key: tuple[str, str], policy: StreamPolicy) -> ThinProducer:
        return ThinProducer(self.runtime, self.channels, key, policy, self.timeout_ms, self.context)

    def namespace(self, name: str | None = None) -> "ProxyNamespace":
        """Return a namespace, by default the client's own. The first call shows if it exists."""
        return ProxyNamespace(self, name or self._namespace_name)

    @asynccontextmanager
    async def writer(self, stream: str) -> AsyncIterator[ProxyWriter]:
        """Open a writer of ``stream``, which other writers may share. Raises NoSuchStreamError."""
        writer = await self.namespace().open_writer(stream)
        async with writer:
            yield writer

    @asynccontextmanager
    async def reader(self, stream: str, start: Start = EARLIEST) -> AsyncIterator[StreamReader]:
        """Open a reader of ``stream`` at ``start``."""
        reader = await self.namespace().open_reader(stream, start)
        async with reader:
            yield reader

    async def call(
        self, method: methods.Method, request: Message, answer: type[Response]
    ) -> Response:
        """Make a unary call to any reachable proxy, or to the one that a proxy names.

        Raises what the proxy raised, DeadlineExceededError, and UnknownOutcomeError if a call that
        cannot be repeated may have been executed.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self.timeout_ms / 1000
        backoff = Backoff(self.runtime.random, _PAUSE_MS, _PAUSE_MS)
        failure: RhumblineError = UnavailableError("no known proxy")
        is_uncertain = False
        tried: dict[str, None] = {}
        attempts = redirects = 0
        channels = self.channels
        await channels.ready()
        owner = _likely_owner(channels, request)
        while (left_s := give_up_at - loop.time()) > 0:
            try:
                address = owner or _next_proxy(channels, tried)
            except UnavailableError as error:  # nothing was sent: no proxy is known yet
                failure = error
                await backoff.pause()
                continue
            tried[address] = None
            try:
                return await self._try_call(method, request, answer, address, left_s)
            except RhumblineError as error:
                failure = error
            attempts, owner = attempts + 1, ""
            if isinstance(failure, NotOwnerError):
                owner = failure.owner
                redirects += bool(owner)
                _note_tried(request, address)
            elif not is_retryable(failure) and not isinstance(failure, DeadlineExceededError):
                break
            else:
                is_uncertain = is_uncertain or not method.is_repeatable
            if attempts - min(redirects, _REDIRECTS_AT_ONCE) >= len(
                channels.directory.any_proxies()
            ):
                await backoff.pause()
        else:
            failure = DeadlineExceededError(f"{method.name}: no proxy responded in time: {failure}")
        if is_uncertain:
            raise UnknownOutcomeError(
                f"{failure}; an earlier attempt may have been executed"
            ) from failure
        raise failure

    async def _try_call(
        self, method: methods.Method, request: Message, answer: type[Response], address: str,
        left_s: float,
    ) -> Response:  # fmt: skip
        timeout_s = min(left_s, _TRY_SECONDS_MAX)
        answered = await self.channels.call_unary(address, method, request, timeout_s)
        assert isinstance(answered, answer)
        return answered


def _likely_owner(channels: Channels, request: Message) -> str:
    """Return the proxy to call first for a method that the owner of a stream serves, else ""."""
    if not isinstance(request, pb.EndStreamRequest | pb.DescribeHomeRequest):
        return ""
    key = (request.namespace, request.stream)
    return channels.owner(key) or next(iter(channels.directory.writers_of(*key)), "")


def _next_proxy(channels: Channels, tried: dict[str, None]) -> str:
    """Return a proxy that was not tried yet; when all were, begin again."""
    known = channels.any_proxies()
    if all(address in tried for address in known):
        tried.clear()
    return next(address for address in known if address not in tried)


def _note_tried(request: Message, address: str) -> None:
    """Add ``address`` to the request's tried addresses, if its type has them."""
    if isinstance(request, pb.EndStreamRequest) and address not in request.tried:
        request.tried.append(address)


class ProxyNamespace:
    """One namespace through proxies, with the methods of the core's ``Namespace``."""

    def __init__(self, client: ProxyClient, name: str) -> None:
        self.name = name
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

    async def delete_stream(self, name: str) -> None:
        """Delete a stream with all of its segments. Raises NoSuchStreamError."""
        request = pb.DeleteStreamRequest(namespace=self.name, stream=name)
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

    async def open_writer(self, name: str) -> ProxyWriter:
        """Open a writer, which may coexist with other writers. Raises NoSuchStreamError."""
        description = await self.describe(name)
        return ProxyWriter(
            self._client.producers,
            namespace=self.name,
            stream=name,
            policy=description.policy,
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
        config = self._client.reader_config
        source = ProxySource(
            self._client.channels,
            self.name,
            name,
            self._client.runtime.random,
            unavailable_ms_max=config.unavailable_ms_max,
        )
        begun = await source.open(start, advances_if_truncated=on_truncated is not None)
        position = decode_position(begun.position)
        if on_truncated is not None and begun.HasField("truncated"):
            on_truncated(decode_position(begun.truncated), position)
        return StreamReader(
            source,
            stream=name,
            stream_id=position.stream_id,
            config=config,
            first_slot=position.slot,
            first_txid=begun.first_txid,
            first_created_ms=start.created_ms if isinstance(start, AtTime) else 0,
            first_event_ms=start.event_ms if isinstance(start, AtEventTime) else None,
            delivered=self._client.context.delivered,
            tracer=self._client.runtime.tracer,
        )
