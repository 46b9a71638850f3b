"""Calls of callers that cannot be identified end with a status, and are recorded."""

from random import Random
from typing import Any, cast

import grpc
import pytest

from rhumbline.core.protocol.errors import RhumblineError, UnauthorizedError, UnavailableError
from rhumbline.proxies.listeners.call_handlers import unary_handler
from rhumbline.proxies.rpc import methods, rhumbline_pb2
from rhumbline.proxies.rpc.call_audit import CallAudit
from rhumbline.security.audit import AuditEvent, AuditResult


class AbortedError(Exception):
    """The end of a call, as gRPC raises it."""


class Context:
    """The context of a call, which notes its status."""

    def __init__(self) -> None:
        self.statuses: list[grpc.StatusCode] = []

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def peer(self) -> str:
        return "ipv4:192.0.2.1:4000"

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: object) -> None:
        assert details and trailing_metadata
        self.statuses.append(code)
        raise AbortedError


class Identity:
    """An identity of callers that is not known."""

    def __init__(self, error: RhumblineError) -> None:
        self.error = error

    async def principal(self, context: object) -> None:
        raise self.error


class Sink:
    """An audit log in memory."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


@pytest.mark.parametrize(
    ("error", "status", "result"),
    [
        (UnauthorizedError("no token"), grpc.StatusCode.UNAUTHENTICATED, AuditResult.REFUSED),
        (UnavailableError("old keys"), grpc.StatusCode.UNAVAILABLE, AuditResult.FAILED),
    ],
)
async def test_caller_that_is_not_identified_gets_a_status(
    error: RhumblineError, status: grpc.StatusCode, result: AuditResult
) -> None:
    sink, context = Sink(), Context()
    audit = CallAudit(sink, Random(1))
    identity = cast(Any, Identity(error))
    handler = cast(Any, unary_handler(methods.CREATE_STREAM, cast(Any, None), identity, audit))
    with pytest.raises(AbortedError):
        await handler.unary_unary(rhumbline_pb2.CreateStreamRequest(stream="s"), context)
    assert context.statuses == [status]
    assert [event.result for event in sink.events] == [result]
