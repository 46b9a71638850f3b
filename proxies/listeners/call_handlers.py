"""Handlers of gRPC calls: they identify the caller, and turn errors into statuses."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message
from grpc_reflection.v1alpha import reflection_pb2

from ...core.protocol.errors import InvariantBrokenError, RhumblineError, UnauthorizedError
from ...security.caller import CURRENT_CALLER, Caller
from ..rpc import methods
from ..rpc.call_audit import CallAudit, CallRecord, peer_of
from ..rpc.call_identity import CallIdentity
from ..rpc.grpc_status import DETAILS_KEY, encode_details, status_name
from ..rpc.identity_lifetime import serve_while_identity_is_valid
from .listener_calls import ListenerCalls

Context = grpc.aio.ServicerContext[Any, Any]
_REFLECT = methods.Method(
    "ServerReflectionInfo",
    reflection_pb2.ServerReflectionRequest,
    reflection_pb2.ServerReflectionResponse,
    is_stream=True,
)


async def _admit(context: Context, identity: CallIdentity, record: CallRecord) -> Caller:
    """Return the caller; end the call if its caller must be known and is not, or cannot be now."""
    try:
        record.principal = await identity.principal(context)
        caller = Caller(record.principal, peer_of(context), record.request_id)
        CURRENT_CALLER.set(caller)
        return caller
    except RhumblineError as error:
        record.failed(error)
        await _abort(
            context, error, "UNAUTHENTICATED" if isinstance(error, UnauthorizedError) else ""
        )
        raise


async def _abort(context: Context, error: RhumblineError, status: str = "") -> None:
    code = grpc.StatusCode[status or status_name(error)]
    details = encode_details(error, code.value[0])
    await context.abort(code, str(error), trailing_metadata=((DETAILS_KEY, details),))


def unary_handler(
    method: methods.Method, calls: ListenerCalls, identity: CallIdentity, audit: CallAudit
) -> "grpc.RpcMethodHandler[Any, Any]":
    """Return the handler of a method with one request and one response."""

    async def serve(request: Message, context: Context) -> Message | None:
        record = audit.begin(context, method, request)
        caller = await _admit(context, identity, record)
        try:
            response = await calls.serve_unary(method, request, caller)
        except RhumblineError as error:
            record.failed(error)
            await _abort(context, error)
            return None
        record.done()
        return response

    return grpc.unary_unary_rpc_method_handler(
        serve,
        request_deserializer=method.request.FromString,
        response_serializer=_serialized,
    )


def stream_handler(
    method: methods.Method, calls: ListenerCalls, identity: CallIdentity, audit: CallAudit
) -> "grpc.RpcMethodHandler[Any, Any]":
    """Return the handler of a streaming method."""

    async def serve(requests: AsyncIterator[Message], context: Context) -> None:
        record = audit.begin(context, method)
        caller = await _admit(context, identity, record)
        try:
            serving = calls.serve_stream(method, requests, context.write, caller)
            await serve_while_identity_is_valid(identity, context, serving)
        except RhumblineError as error:
            record.failed(error)
            await _abort(context, error)
        except AssertionError as error:
            await _abort(context, InvariantBrokenError(repr(error)))

    return grpc.stream_stream_rpc_method_handler(
        serve,
        request_deserializer=method.request.FromString,
        response_serializer=_serialized,
    )


def refused_reflection(
    calls: ListenerCalls, identity: CallIdentity, audit: CallAudit
) -> "grpc.RpcMethodHandler[Any, Any]":
    """Return the handler that refuses server reflection, which another listener serves."""

    async def serve(requests: AsyncIterator[bytes], context: Context) -> None:
        record = audit.begin(context, _REFLECT)
        await _admit(context, identity, record)
        error = calls.refusal("server reflection")
        record.failed(error)
        await _abort(context, error)

    return grpc.stream_stream_rpc_method_handler(serve)


def _serialized(message: Message | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()
