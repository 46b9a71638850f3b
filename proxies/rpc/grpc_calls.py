"""Calls to proxies with gRPC, whose errors are mapped to Rhumbline errors."""

import asyncio
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from ...access.token_source import TokenSource
from ...core.protocol.errors import RhumblineError, UnavailableError
from ...tls.credentials import TlsCredentials
from ...tls.protection import is_loopback
from . import methods
from .grpc_credentials import open_channel
from .grpc_status import DETAILS_KEY, decode_details, error_of_status


def error_of_call(error: grpc.aio.AioRpcError) -> RhumblineError:
    """Return the error that a failed call represents."""
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            known = decode_details(value)
            if known is not None:
                return known
    return error_of_status(error.code().name, error.details() or "")


_UNUSED_SECONDS_MAX = 60.0
"""Time without a call after which a channel is closed. The proxy may have left for good."""
_SWEEP_SECONDS = 5.0


class GrpcCall:
    """A streaming call with gRPC; see ``RpcCall``."""

    def __init__(self, call: Any) -> None:  # noqa: ANN401 - grpc's own type
        self._call = call

    async def write(self, message: Message) -> None:
        """See ``RpcCall.write``."""
        try:
            await self._call.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
            return  # the call is over; read() raises the reason
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise

    async def read(self) -> Message | None:
        """See ``RpcCall.read``."""
        try:
            response = await self._call.read()
            if response is not grpc.aio.EOF:
                message: Message = response
                return message
        except grpc.aio.AioRpcError as failure:
            raise error_of_call(failure) from failure
        except asyncio.InvalidStateError:
            pass  # the call was over already
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            raise UnavailableError("the call was cancelled") from None
        await self._raise_end()
        return None

    async def _raise_end(self) -> None:
        """Raise the error that ended the call, if there was one."""
        code = await self._call.code()
        if code is grpc.StatusCode.OK:
            return
        raise error_of_call(
            grpc.aio.AioRpcError(
                code,
                await self._call.initial_metadata(),
                await self._call.trailing_metadata(),
                await self._call.details(),
            )
        )

    def cancel(self) -> None:
        """See ``RpcCall.cancel``."""
        self._call.cancel()


class _Proxy:
    """The channel to one proxy, and its use."""

    __slots__ = ("call_count", "channel", "used_at")

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.call_count = 0
        """Number of calls that have not ended."""
        self.used_at = 0.0
        """Time of the event loop at which a call last began or ended."""


class GrpcTransport:
    """An ``RpcTransport`` with one gRPC channel for each proxy that it calls.

    After a renewal of the process's certificate new calls use new channels; calls that run go on.
    """

    def __init__(
        self,
        credentials: TlsCredentials | None = None,
        token: TokenSource | None = None,
        *,
        unused_seconds_max: float = _UNUSED_SECONDS_MAX,
    ) -> None:
        """Without ``credentials`` the connections are not encrypted.

        ``token`` is presented with each call; without TLS only to proxies on this machine. A unary
        call closes the channels that had no call for ``unused_seconds_max``.
        """
        self._credentials = credentials
        self._token = token
        self._version = 0 if credentials is None else credentials.version
        self._proxies: dict[str, _Proxy] = {}
        self._retired: list[_Proxy] = []  # with an earlier certificate
        self._unused_seconds_max = unused_seconds_max
        self._swept_at = 0.0

    @property
    def channel_count(self) -> int:
        """Number of open channels."""
        return len(self._proxies) + len(self._retired)

    def begin(self, address: str, method: methods.Method) -> GrpcCall:
        """See ``RpcTransport.begin``."""
        proxy = self._use(address)
        call = proxy.channel.stream_stream(
            method.path,
            request_serializer=_serialized,
            response_deserializer=method.response.FromString,
        )(metadata=self._metadata(address))
        call.add_done_callback(lambda _: _end_use(proxy))
        return GrpcCall(call)

    async def call_unary(
        self, address: str, method: methods.Method, request: Message, timeout_s: float
    ) -> Message:
        """See ``RpcTransport.call_unary``."""
        proxy = self._use(address)
        call: Any = proxy.channel.unary_unary(
            method.path,
            request_serializer=_serialized,
            response_deserializer=method.response.FromString,
        )
        try:
            response: Message = await call(
                request, timeout=timeout_s, metadata=self._metadata(address)
            )
        except grpc.aio.AioRpcError as error:
            raise error_of_call(error) from error
        finally:
            _end_use(proxy)
        await self._close_unused()
        return response

    async def aclose(self) -> None:
        """See ``RpcTransport.aclose``."""
        proxies, self._proxies = [*self._retired, *self._proxies.values()], {}
        self._retired = []
        for proxy in proxies:
            await proxy.channel.close(None)

    def _metadata(self, address: str) -> tuple[tuple[str, str], ...] | None:
        """Return the metadata of a call: the token, unless others could read it on its way."""
        is_safe = self._credentials is not None or is_loopback(address.rpartition(":")[0])
        if self._token is None or not is_safe:
            return None
        return (("authorization", f"Bearer {self._token.current()}"),)

    def _use(self, address: str) -> _Proxy:
        credentials = self._credentials
        if credentials is not None:
            credentials.pem_files()  # loads changed files
            if credentials.version != self._version:
                self._version = credentials.version
                self._retired.extend(self._proxies.values())
                self._proxies = {}
        proxy = self._proxies.get(address)
        if proxy is None:
            channel = open_channel(address, credentials, methods.CHANNEL_OPTIONS)
            proxy = self._proxies[address] = _Proxy(channel)
        proxy.call_count += 1
        return proxy

    async def _close_unused(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._swept_at < min(_SWEEP_SECONDS, self._unused_seconds_max):
            return
        self._swept_at = now
        unused = [
            address
            for address, proxy in self._proxies.items()
            if proxy.call_count == 0 and now - proxy.used_at > self._unused_seconds_max
        ]
        closed = [self._proxies.pop(address) for address in unused]
        closed.extend(proxy for proxy in self._retired if proxy.call_count == 0)
        self._retired = [proxy for proxy in self._retired if proxy.call_count > 0]
        for proxy in closed:
            await proxy.channel.close(None)


def _end_use(proxy: _Proxy) -> None:
    proxy.call_count -= 1
    proxy.used_at = asyncio.get_running_loop().time()


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _is_being_cancelled() -> bool:
    """Return whether the waiting task, and not the call, was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
