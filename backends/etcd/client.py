"""Calls to etcd: choice of the server, timeouts, and the meaning of failures.

There is one channel per server; the current server is used until a call to it fails, then the next
one. A read is repeated until its deadline. A write is sent once, on a connected channel. A failure
before that is certain to have had no effect; after that, only etcd's own refusals are certain.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from ...core.protocol.errors import (
    ClosedError,
    IndeterminateError,
    LimitExceededError,
    MetadataUnavailableError,
    RhumblineError,
    SessionLostError,
    UnauthorizedError,
)
from ...core.runtime.primitives.backoff import Backoff
from . import etcd_pb2 as pb

Answer = TypeVar("Answer", bound=Message)
Stream = grpc.aio.StreamStreamCall[Any, Any]

ATTEMPT_MS_MAX = 1_000
"""Timeout of one attempt to connect to a server or to read from it, before the next is tried."""

_CANCELLED_CALLS_MS = 10
"""Pause after channels were closed. gRPC reports the end of each cancelled call to the event loop a
moment later, and nothing waits for this. What it cannot report to a loop that has ended appears as
an error in the next loop of the process."""

_PAUSE_MS_MIN = 25
_PAUSE_MS_MAX = 500
_REFUSED_PAUSE_MS = 500
"""Pause after a refused watch: it is refused until an operator grants the permission."""
_SERVICE = "/etcdserverpb."
_OPTIONS = [
    ("grpc.keepalive_time_ms", 8_000),  # etcd closes connections with pings every 5 s or faster,
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.keepalive_permit_without_calls", 0),  # or with pings without an active call
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.use_local_subchannel_pool", 1),
]
_HAS_LEADER = ("hasleader", "true")

_REFUSALS: dict[grpc.StatusCode, type[RhumblineError]] = {
    grpc.StatusCode.PERMISSION_DENIED: UnauthorizedError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthorizedError,
    grpc.StatusCode.INVALID_ARGUMENT: LimitExceededError,
    grpc.StatusCode.FAILED_PRECONDITION: MetadataUnavailableError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: MetadataUnavailableError,
    grpc.StatusCode.NOT_FOUND: SessionLostError,  # only requests for leases are answered like this
}
_CREDENTIALS_REFUSED = (
    grpc.StatusCode.INVALID_ARGUMENT,  # unknown user or wrong password
    grpc.StatusCode.FAILED_PRECONDITION,  # authentication is disabled
)
_NO_USER = "user name is empty"
"""The detail of etcd's INVALID_ARGUMENT status for a request without credentials."""


class CompactedError(Exception):
    """The requested revision was compacted."""


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """The addresses of the servers and the credentials; ``user`` is (name, password)."""

    addresses: tuple[str, ...]
    user: tuple[str, str] | None = None
    is_tls: bool = False
    tls_ca: bytes | None = None
    tls_cert: bytes | None = None
    tls_key: bytes | None = None


class EtcdClient:
    """A client of the servers of one cluster."""

    def __init__(self, access: EtcdAccess) -> None:
        self._access = access
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._current = 0
        self._token: str | None = None
        self._is_closed = False
        self._last_failure = ""
        self._loop = asyncio.get_running_loop()
        self._backoff = Backoff(Random(), _PAUSE_MS_MIN, _PAUSE_MS_MAX)

    async def read(
        self, method: str, request: Message, answer: type[Answer], *, deadline: float
    ) -> Answer:
        """Make a call that may be repeated.

        Raises MetadataUnavailableError, CompactedError and the errors in ``_REFUSALS``.
        """
        while True:
            remaining_s = self._remaining_s(deadline)
            try:
                return await self._call(
                    method, request, answer, min(remaining_s, ATTEMPT_MS_MAX / 1000)
                )
            except grpc.aio.AioRpcError as error:
                if error.code() == grpc.StatusCode.OUT_OF_RANGE:
                    raise CompactedError from error
                await self._recover(error, deadline)

    async def write(
        self, method: str, request: Message, answer: type[Answer], *, deadline: float
    ) -> Answer:
        """Make a call that is sent once.

        Raises MetadataUnavailableError, IndeterminateError and the errors in ``_REFUSALS``.
        """
        while True:
            await self._ready(deadline)
            try:
                return await self._call(method, request, answer, self._remaining_s(deadline))
            except grpc.aio.AioRpcError as error:
                if error.code() == grpc.StatusCode.UNAUTHENTICATED and self._token is not None:
                    self._token = None  # the token expired; the call had no effect
                    continue
                if error.code() not in _REFUSALS:
                    self._use_next_server()
                    raise IndeterminateError(f"etcd: {_describe(error)}") from error
                raise _refusal(error) from error

    def stream(self, method: str, answer: type[Answer]) -> Stream:
        """Open a stream to the current server; it fails if that server has no leader."""
        self._check_open()
        call: Any = self._channel().stream_stream(
            _SERVICE + method,
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        stream: Stream = call(metadata=[*self._metadata(), _HAS_LEADER])
        return stream

    def note_answer(self) -> None:
        """Note that a server answered: the next failure is followed by a short pause."""
        self._backoff.reset()

    async def stream_failed(
        self, error: grpc.aio.AioRpcError | None, *, is_refused: bool = False
    ) -> None:
        """Use the next server after a pause, with a new token if the old one was refused."""
        if is_refused or (error is not None and error.code() == grpc.StatusCode.UNAUTHENTICATED):
            self._token = None
        self._use_next_server()
        await asyncio.sleep(_REFUSED_PAUSE_MS / 1000 if is_refused else self._backoff.next_s())
        if self._token is None and self._access.user is not None:
            with suppress(grpc.aio.AioRpcError, UnauthorizedError):  # the stream then fails again
                await self._authenticate(ATTEMPT_MS_MAX / 1000)

    async def aclose(self) -> None:
        """Close the channels. Safe to repeat."""
        self._is_closed = True
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close(None)
        if channels:
            await asyncio.sleep(_CANCELLED_CALLS_MS / 1000)

    async def _call(
        self, method: str, request: Message, answer: type[Answer], timeout_s: float
    ) -> Answer:
        self._check_open()
        if self._access.user is not None and self._token is None:
            await self._authenticate(timeout_s)
        return await self._unary(method, request, answer, timeout_s)

    async def _unary(
        self, method: str, request: Message, answer: type[Answer], timeout_s: float
    ) -> Answer:
        call: Any = self._channel().unary_unary(
            _SERVICE + method,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        try:
            result: Answer = await call(request, timeout=timeout_s, metadata=self._metadata())
        except grpc.aio.UsageError as error:
            raise ClosedError("the etcd client is closed") from error
        except asyncio.CancelledError:
            # gRPC also cancels calls when their channel is closed; the task was not cancelled then.
            caller = asyncio.current_task()
            if self._is_closed and caller is not None and not caller.cancelling():
                raise ClosedError("the etcd client was closed") from None
            raise
        self._last_failure = ""
        self.note_answer()
        return result

    async def _authenticate(self, timeout_s: float) -> None:
        if self._access.user is None:
            return
        name, password = self._access.user
        request = pb.AuthenticateRequest(name=name, password=password)
        try:
            answer = await self._unary(
                "Auth/Authenticate", request, pb.AuthenticateResponse, timeout_s
            )
        except grpc.aio.AioRpcError as error:
            if error.code() in _CREDENTIALS_REFUSED:
                raise UnauthorizedError(f"etcd: {_describe(error)}") from error
            raise
        self._token = answer.token

    async def _ready(self, deadline: float) -> None:
        """Wait until the current channel is connected; try one server after the other."""
        while True:
            self._check_open()
            try:
                async with asyncio.timeout(min(self._remaining_s(deadline), ATTEMPT_MS_MAX / 1000)):
                    await self._channel().channel_ready()
                if self._access.user is not None and self._token is None:
                    await self._authenticate(self._remaining_s(deadline))
                return
            except TimeoutError:
                self._use_next_server()
            except grpc.aio.AioRpcError as error:
                await self._recover(error, deadline)

    async def _recover(self, error: grpc.aio.AioRpcError, deadline: float) -> None:
        """Handle a failed attempt: raise if the error is final, else use the next server."""
        if error.code() == grpc.StatusCode.UNAUTHENTICATED and self._token is not None:
            self._token = None
        elif error.code() in _REFUSALS and error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise _refusal(error) from error
        else:
            self._last_failure = f" ({_describe(error)})"
            self._use_next_server()
            await asyncio.sleep(min(self._backoff.next_s(), self._remaining_s(deadline)))

    def _remaining_s(self, deadline: float) -> float:
        remaining_s = deadline - self._loop.time()
        if remaining_s <= 0:
            raise MetadataUnavailableError(f"no response from etcd in time{self._last_failure}")
        return remaining_s

    def _channel(self) -> grpc.aio.Channel:
        address = self._access.addresses[self._current]
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._connect(address)
        return channel

    def _connect(self, address: str) -> grpc.aio.Channel:
        if not self._access.is_tls:
            return grpc.aio.insecure_channel(address, options=_OPTIONS)
        credentials = grpc.ssl_channel_credentials(
            self._access.tls_ca, self._access.tls_key, self._access.tls_cert
        )
        return grpc.aio.secure_channel(address, credentials, options=_OPTIONS)

    def _use_next_server(self) -> None:
        self._current = (self._current + 1) % len(self._access.addresses)

    def _metadata(self) -> list[tuple[str, str]]:
        return [] if self._token is None else [("token", self._token)]

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the etcd client is closed")


def _refusal(error: grpc.aio.AioRpcError) -> RhumblineError:
    if _NO_USER in (error.details() or ""):
        return UnauthorizedError(f"etcd: {_describe(error)}")
    return _REFUSALS[error.code()](f"etcd: {_describe(error)}")


def _describe(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}: {' '.join((error.details() or '').split())}"
