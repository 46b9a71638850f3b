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


_RETIRED_MAX = 1_024
"""Maximum number of channels with an earlier certificate, whose calls may still run."""


class GrpcTransport:
    """An ``RpcTransport`` with one gRPC channel for each proxy.

    After a renewal of the process's certificate new calls use new channels; calls that run go on.
    """

    def __init__(
        self, credentials: TlsCredentials | None = None, token: TokenSource | None = None
    ) -> None:
        """Without ``credentials`` the connections are not encrypted.

        ``token`` is presented with each call; without TLS only to proxies on this machine.
        """
        self._credentials = credentials
        self._token = token
        self._version = 0 if credentials is None else credentials.version
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._retired: list[grpc.aio.Channel] = []

    def begin(self, address: str, method: methods.Method) -> GrpcCall:
        """See ``RpcTransport.begin``."""
        call = self._channel(address).stream_stream(
            method.path,
            request_serializer=_serialized,
            response_deserializer=method.response.FromString,
        )
        return GrpcCall(call(metadata=self._metadata(address)))

    async def call_unary(
        self, address: str, method: methods.Method, request: Message, timeout_s: float
    ) -> Message:
        """See ``RpcTransport.call_unary``."""
        call: Any = self._channel(address).unary_unary(
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
        return response

    async def aclose(self) -> None:
        """See ``RpcTransport.aclose``."""
        channels, self._channels = [*self._retired, *self._channels.values()], {}
        self._retired = []
        for channel in channels:
            await channel.close(None)

    def _metadata(self, address: str) -> tuple[tuple[str, str], ...] | None:
        """Return the metadata of a call: the token, unless others could read it on its way."""
        is_safe = self._credentials is not None or is_loopback(address.rpartition(":")[0])
        if self._token is None or not is_safe:
            return None
        return (("authorization", f"Bearer {self._token.current()}"),)

    def _channel(self, address: str) -> grpc.aio.Channel:
        credentials = self._credentials
        if credentials is not None:
            credentials.pem_files()  # loads changed files
            if credentials.version != self._version:
                self._version = credentials.version
                # Their calls go on; gRPC itself disconnects a channel without calls.
                self._retired = [*self._channels.values(), *self._retired][:_RETIRED_MAX]
                self._channels = {}
        channel = self._channels.get(address)
        if channel is None:
            channel = open_channel(address, credentials, methods.CHANNEL_OPTIONS)
            self._channels[address] = channel
        return channel


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _is_being_cancelled() -> bool:
    """Return whether the waiting task, and not the call, was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
