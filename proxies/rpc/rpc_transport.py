"""The transport of calls to proxies, as the client sees it.

``grpc_calls`` implements it with gRPC, the simulator with messages over its own connections.
"""

from typing import Protocol

from google.protobuf.message import Message

from .methods import Method


class RpcCall(Protocol):
    """A call with a stream of messages in each direction."""

    async def write(self, message: Message) -> None:
        """Send a message. Once the call is over nothing is sent; ``read`` raises the reason."""
        ...

    async def read(self) -> Message | None:
        """Return the next message; None if the proxy has ended the call.

        Raises the error with which the proxy ended the call, or UnavailableError if the connection
        broke or the call was cancelled here. Cancelling a read may cancel the call.
        """
        ...

    def cancel(self) -> None:
        """End the call, and notify the proxy if possible. Safe to repeat."""
        ...


class RpcTransport(Protocol):
    """The connections of one client process to all proxies."""

    def begin(self, address: str, method: Method) -> RpcCall:
        """Begin a streaming call; an unreachable proxy makes its ``read`` fail."""
        ...

    async def call_unary(
        self, address: str, method: Method, request: Message, timeout_s: float
    ) -> Message:
        """Send one request and return its response.

        Raises the error that the proxy returned, UnavailableError, DeadlineExceededError.
        """
        ...

    async def aclose(self) -> None:
        """End all calls and close the connections. Safe to repeat; a later call connects again."""
        ...
