"""A listener refuses the calls of the other one, before anything else is decided."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.message import Message

from rhumbline.core.protocol.errors import WrongPortError
from rhumbline.proxies.listeners.listener import Listener
from rhumbline.proxies.listeners.listener_calls import ListenerCalls
from rhumbline.proxies.permissions.guarded_calls import GuardedCalls
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.grpc_status import decode_details, encode_details, status_name
from rhumbline.proxies.rpc.proxy_service import SendResponse
from rhumbline.security.audit import AuditResult, result_of
from rhumbline.security.caller import Caller
from rhumbline.security.principal import ANONYMOUS

CALLER = Caller(ANONYMOUS, "10.0.0.9:1", "id")


class CountedCalls(GuardedCalls):
    """Calls that are noted and answered without a proxy."""

    def __init__(self) -> None:
        self.served: list[methods.Method] = []

    async def serve_unary(
        self, method: methods.Method, request: Message, caller: Caller
    ) -> Message:
        self.served.append(method)
        return method.response()

    async def serve_stream(
        self,
        method: methods.Method,
        requests: AsyncIterator[Any],
        send: SendResponse,
        caller: Caller,
    ) -> None:
        self.served.append(method)


async def no_requests() -> AsyncIterator[Message]:
    raise AssertionError("a refused call was read")
    yield pb.AppendRequest()


async def send(_: Message | bytes) -> None:
    raise AssertionError("a refused call was answered")


async def serve(calls: ListenerCalls, method: methods.Method) -> WrongPortError | None:
    try:
        if method.is_stream:
            await calls.serve_stream(method, no_requests(), send, CALLER)
        else:
            await calls.serve_unary(method, method.request(), CALLER)
    except WrongPortError as error:
        return error
    return None


@pytest.mark.parametrize("listener", Listener)
async def test_exactly_the_calls_of_the_listener_are_served(listener: Listener) -> None:
    counted = CountedCalls()
    calls = ListenerCalls(counted, listener, "other:9")
    for method in methods.METHODS:
        error = await serve(calls, method)
        assert (error is None) is listener.serves(method)
        if error is not None:
            assert method.name in str(error) and "SEC-44" in str(error)
            assert error.address == "other:9"
    assert counted.served == [method for method in methods.METHODS if listener.serves(method)]


async def test_the_refusal_survives_its_way_to_the_client_and_is_audited() -> None:
    error = ListenerCalls(CountedCalls(), Listener.DATA, "one:4291").refusal("SetPolicy")
    assert str(error).startswith("SetPolicy is served at the address for operators, one:4291")
    assert status_name(error) == "FAILED_PRECONDITION"
    decoded = decode_details(encode_details(error, 9))
    assert isinstance(decoded, WrongPortError)
    assert (str(decoded), decoded.address, decoded.retryable) == (str(error), "one:4291", False)
    assert result_of(error) is AuditResult.REFUSED
