"""The thin client: the core client's calls, made through proxies of the client's region (PRX-13).

async with rhumbline.connect("grpc://proxy-1:4281,proxy-2:4281") as client:
    async with client.writer("orders") as writer:
        await writer.append(b"...")
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

from google.protobuf.message import Message

from ...core.log.close_at_exit import ClosesAtExit
from ...core.log.config import ReaderConfig
from ...core.log.log_context import LogContext
from ...core.log.policy import StreamPolicy
from ...core.log.read.stream_reader import StreamReader
from ...core.protocol.dlsn import dlsn_in
from ...core.protocol.errors import (
    ClosedError,
    DeadlineExceededError,
    InvalidPositionError,
    NoSuchStreamError,
    NotOwnerError,
    RhumblineError,
    UnavailableError,
    UnknownOutcomeError,
)
from ...core.protocol.start import EARLIEST, Start
from ...core.runtime.home_loop import HomeLoop
from ...core.runtime.primitives.backoff import Backoff
from ...core.runtime.runtime import Runtime
from ..proxy_uri import parse_proxies
from ..rpc import methods
from ..rpc import rhumbline_pb2 as pb
from ..rpc.grpc_status import is_retryable
from ..rpc.rpc_transport import RpcTransport
from .channels import Channels
from .discovery.config import DiscoveryConfig
from .discovery.list_refresher import ListRefresher
from .discovery.proxy_directory import ProxyDirectory
from .discovery.seeds import NoResolver, SeedResolver
from .proxy_namespace import ProxyNamespace
from .proxy_reader import ProxySource
from .proxy_topics import ProxyNamespaces, ProxyTopics
from .proxy_writer import ProxyWriter
from .shared_reading import SharedReading
from .thin_producer import TIMEOUT_MS, ThinProducer, ThinProducers
from .writer_policies import WriterPolicies

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
        self.writer_policies = WriterPolicies(self._read_policy)
        self.reading = SharedReading(self._reopen)
        """The streams that the client's readers share."""

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
        await self.reading.aclose()
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

    def new_source(self, namespace: str, stream: str) -> ProxySource:
        """Return a source of a stream's entries, which has no call yet. Raises ClosedError."""
        return ProxySource(
            self.channels,
            namespace,
            stream,
            self.runtime.random,
            unavailable_ms_max=self.reader_config.unavailable_ms_max,
        )

    async def _reopen(self, key: tuple[str, str], position: tuple[int, int]) -> ProxySource:
        namespace, _, stream = key[0].partition("/")
        source = self.new_source(namespace, stream)
        try:
            await source.open(dlsn_in(key[1], *position, 0), advances_if_truncated=False)
        except InvalidPositionError as error:
            message = f"stream {stream} was deleted while it was read: {error}"
            raise NoSuchStreamError(message) from error
        return source

    async def _read_policy(self, key: tuple[str, str]) -> StreamPolicy:
        return (await self.namespace(key[0]).describe(key[1])).policy

    def namespace(self, name: str | None = None) -> ProxyNamespace:
        """Return a namespace, by default the client's own. The first call shows if it exists."""
        return ProxyNamespace(self, name or self._namespace_name)

    @property
    def namespaces(self) -> ProxyNamespaces:
        """All namespaces of the cluster."""
        return ProxyNamespaces(self.call)

    def topic_calls(self, namespace: str | None = None) -> ProxyTopics:
        """Return the metadata of the topics of a namespace, for ``rhumbline.topics.Topics``."""
        return ProxyTopics(self.call, lambda: self.channels, namespace or self._namespace_name)

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
