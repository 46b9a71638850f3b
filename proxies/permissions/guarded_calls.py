"""Serves the calls of a proxy to callers who are permitted to make them (rules SEC-5, SEC-6).

A call that lasts is checked again whenever the grants change, and before each message that it
sends. The items of an append call are checked one by one, before they are appended and before
their result is sent.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Self

from google.protobuf.message import Message

from ...access.access_control import AccessControl
from ...core.protocol.errors import RhumblineError
from ...core.runtime.tasks import Tasks, wait_until_done
from ...security.caller import Caller
from ...security.principal import INTERNAL_ROLES
from ..rpc import methods
from ..rpc.proxy_service import ProxyService, SendResponse
from .append_permits import AppendPermits
from .call_requirements import REQUIREMENTS, UNRESTRICTED


class GuardedCalls:
    """The calls of one proxy. Without ``access`` all callers may make all calls."""

    def __init__(self, service: ProxyService, access: AccessControl | None) -> None:
        self._service = service
        self._access = access

    async def serve_unary(
        self, method: methods.Method, request: Message, caller: Caller
    ) -> Message:
        """Serve a call with one request.

        Raises PermissionDeniedError, UnavailableError if the grants are not known now, and what the
        call raises.
        """
        self._check(method, request, caller)
        return await self._service.unary_calls[method](request)

    async def serve_stream(
        self,
        method: methods.Method,
        requests: AsyncIterator[Any],
        send: SendResponse,
        caller: Caller,
    ) -> None:
        """Serve a streaming call until it ends. Raises as ``serve_unary``."""
        access = self._access
        if method is methods.APPEND:
            permits = None if access is None else AppendPermits(access, caller)
            await self._service.append(requests, send, permits)
            return
        serve = self._service.stream_calls[method]
        if access is None:
            await serve(requests, send)
            return
        first = await anext(requests, None)
        if first is None:
            await serve(requests, send)  # which finds that there is no request
            return
        requirement = REQUIREMENTS[method]
        resource = requirement.resource(first)

        def check() -> None:
            access.check(caller, requirement.actions, resource)

        async def checked_send(message: Message | bytes) -> None:
            check()
            await send(message)

        check()
        await _serve_while_permitted(
            access, check, lambda: serve(_WithFirst(first, requests), checked_send)
        )

    def _check(self, method: methods.Method, request: Message, caller: Caller) -> None:
        if self._access is None or method in UNRESTRICTED:
            return
        requirement = REQUIREMENTS[method]
        if requirement.is_internal and caller.principal.roles & INTERNAL_ROLES:
            return
        self._access.check(caller, requirement.actions, requirement.resource(request))


async def _serve_while_permitted(
    access: AccessControl, check: Callable[[], None], serve: Callable[[], Any]
) -> None:
    """Serve a call until it ends, or until ``check`` raises after a change of the grants."""
    refusals: list[RhumblineError] = []
    tasks = Tasks(on_failure=lambda _: None)  # the error is that of the call
    serving = tasks.spawn(serve(), "guarded call")

    def recheck() -> None:
        try:
            check()
        except RhumblineError as error:
            refusals.append(error)
            serving.cancel()

    access.on_change(recheck)
    try:
        await wait_until_done(serving)
        if refusals:
            raise refusals[0]
        serving.result()
    finally:
        access.forget(recheck)
        await tasks.aclose()


class _WithFirst:
    """Iterates over the requests of a call, of which the first was taken already."""

    def __init__(self, first: Message, others: AsyncIterator[Any]) -> None:
        self._first: Message | None = first
        self._others = others

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401 - one of many messages
        first, self._first = self._first, None
        return first if first is not None else await anext(self._others)
