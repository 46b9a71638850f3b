"""Calls to proxies as the client's logic sees them, whatever carries them.

``grpc_calls`` carries them by gRPC; the simulator by messages over its own connections.
"""

from typing import Protocol

from google.protobuf.message import Message

from .methods import Method


class RpcCall(Protocol):
    """A call with streams of messages in both directions."""

    async def write(self, message: Message) -> None:
        """Sends a message. Once the call is over it sends nothing: ``read`` says why."""
        ...

    async def read(self) -> Message | None:
        """The next message; None: the proxy has ended the call.

        Raises the error with which the proxy ended it, or UnavailableError when the connection
        broke or the call was cancelled here. A read that is cancelled may cancel the call.
        """
        ...

    def cancel(self) -> None:
        """Ends it; the proxy is told if it can be. Safe to repeat."""
        ...


class RpcTransport(Protocol):
    """The connections of one client process to all proxies."""

    def begin(self, address: str, method: Method) -> RpcCall:
        """Begins a call with streams; whether anybody is there shows when it is read."""
        ...

    async def ask(
        self, address: str, method: Method, request: Message, timeout_s: float
    ) -> Message:
        """A call with one request and one answer.

        Raises the error that the proxy answered, UnavailableError, DeadlineExceededError.
        """
        ...

    async def aclose(self) -> None:
        """Ends all calls and closes the connections. Safe to repeat; a later call connects anew."""
        ...
