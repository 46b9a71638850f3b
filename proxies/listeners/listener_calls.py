"""The calls of a proxy as one of its listeners serves them (rule SEC-44)."""

from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.message import Message

from ...core.protocol.errors import WrongPortError
from ...security.caller import Caller
from ..permissions.guarded_calls import GuardedCalls
from ..rpc import methods
from ..rpc.proxy_service import SendResponse
from .listener import Listener


class ListenerCalls:
    """Serves the calls that belong to a listener, and refuses the others."""

    def __init__(self, calls: GuardedCalls, listener: Listener, other_address: str = "") -> None:
        """``other_address`` is the host:port of the other listener, if there is one."""
        self.listener = listener
        self._calls = calls
        self._other_address = other_address

    async def serve_unary(
        self, method: methods.Method, request: Message, caller: Caller
    ) -> Message:
        """Serve a call with one request.

        Raises WrongPortError, and what ``GuardedCalls.serve_unary`` raises.
        """
        self._check(method)
        return await self._calls.serve_unary(method, request, caller)

    async def serve_stream(
        self,
        method: methods.Method,
        requests: AsyncIterator[Any],
        send: SendResponse,
        caller: Caller,
    ) -> None:
        """Serve a streaming call until it ends. Raises as ``serve_unary``."""
        self._check(method)
        await self._calls.serve_stream(method, requests, send, caller)

    def refusal(self, name: str) -> WrongPortError:
        """Return the error for a call that the other listener serves."""
        served_for = "clients" if self.listener is Listener.OPERATORS else "operators"
        return WrongPortError(
            f"{name} is served at the address for {served_for}, {self._other_address}, and not at "
            "this port (rule SEC-44)",
            self._other_address,
        )

    def _check(self, method: methods.Method) -> None:
        if not self.listener.serves(method):
            raise self.refusal(method.name)
