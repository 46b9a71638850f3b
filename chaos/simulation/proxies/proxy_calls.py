"""Calls of rhumbline.v1 in the simulated world, in place of gRPC: one connection for each call.

A frame consists of a length, a kind and a body. The client's first frame names the method; the
proxy's last frame contains the status. Both ends apply flow control by reading no more while their
inbox is full, as gRPC does.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, Self

from google.protobuf.message import Message

from ....core.protocol.errors import (
    DeadlineExceededError,
    InvariantBrokenError,
    RhumblineError,
    UnavailableError,
)
from ....core.runtime.tasks import Tasks
from ....proxies.permissions.guarded_calls import GuardedCalls
from ....proxies.rpc.grpc_status import decode_details, encode_details
from ....proxies.rpc.methods import METHODS, Method
from ....security.caller import Caller

_LENGTH = 4
_BEGIN, _MESSAGE, _END, _ERROR = range(4)
_INBOX_BYTES_MAX = 64 << 10
_CONNECT_SECONDS = 20
"""The connect time-out, equal to that of gRPC."""
_METHODS = {method.path: method for method in METHODS}

Frame = tuple[int, bytes]


class _End(asyncio.Protocol):
    """One end of a call's connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_lost = False
        self._held = b""
        self._inbox: deque[Frame] = deque()
        self._inbox_bytes = 0
        self._changed = asyncio.Event()
        self._is_writable = asyncio.Event()
        self._is_writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._changed.set()
        self._is_writable.set()

    def pause_writing(self) -> None:
        self._is_writable.clear()

    def resume_writing(self) -> None:
        self._is_writable.set()

    def data_received(self, data: bytes) -> None:
        data = self._held + data
        while len(data) >= _LENGTH:
            end = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
            if len(data) < end:
                break
            self._inbox.append((data[_LENGTH], data[_LENGTH + 1 : end]))
            self._inbox_bytes += end
            data = data[end:]
        self._held = data
        if self._inbox_bytes > _INBOX_BYTES_MAX and self.transport is not None:
            self.transport.pause_reading()
        self._changed.set()

    async def send(self, kind: int, data: bytes) -> None:
        """Send a frame when the buffer has room; do nothing if the connection is lost."""
        await self._is_writable.wait()
        if not self.is_lost and self.transport is not None:
            size = (1 + len(data)).to_bytes(_LENGTH, "big")
            self.transport.write(size + bytes((kind,)) + data)

    async def take(self) -> Frame | None:
        """Return the next frame; None if the connection is lost."""
        while not self._inbox:
            if self.is_lost:
                return None
            self._changed.clear()
            await self._changed.wait()
        kind, data = self._inbox.popleft()
        self._inbox_bytes -= len(data) + 1 + _LENGTH
        if self._inbox_bytes <= _INBOX_BYTES_MAX and self.transport is not None:
            self.transport.resume_reading()
        return kind, data

    def lose(self) -> None:
        """Abort the connection."""
        if self.transport is not None:
            self.transport.abort()
        self.connection_lost(None)


# --- the client's side --------------------------------------------------------------------------


class SimCall:
    """The client's side of a call; implements ``Call``."""

    def __init__(self, address: str, method: Method, tasks: Tasks) -> None:
        self._end = _End()
        self._method = method
        self._outcome: RhumblineError | None = None
        self._is_over = False
        self._is_connected = asyncio.Event()
        tasks.spawn(self._connect(address), f"connect to {address}")

    async def _connect(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await loop.create_connection(lambda: self._end, host, int(port))
            if self._is_over:
                self._end.lose()
            await self._end.send(_BEGIN, self._method.path.encode())
        except (OSError, TimeoutError) as error:
            self._over(UnavailableError(f"cannot connect to {address}: {error}"))
        finally:
            self._is_connected.set()

    def _over(self, outcome: RhumblineError | None) -> None:
        if not self._is_over:
            self._is_over, self._outcome = True, outcome
        self._is_connected.set()  # releases waiting callers
        self._end.lose()

    async def write(self, message: Message) -> None:
        """See ``RpcCall.write``."""
        await self._is_connected.wait()
        await self._end.send(_MESSAGE, message.SerializeToString())

    async def read(self) -> Message | None:
        """See ``RpcCall.read``."""
        await self._is_connected.wait()
        frame = None if self._is_over else await self._end.take()
        if not self._is_over:
            match frame:
                case None:
                    self._over(UnavailableError("the connection broke"))
                case (kind, data) if kind == _MESSAGE:
                    message: Message = self._method.response.FromString(data)
                    return message
                case (kind, data):
                    self._over(decode_details(data) if kind == _ERROR else None)
        if self._outcome is not None:
            raise self._outcome.with_traceback(None)
        return None

    def cancel(self) -> None:
        """See ``RpcCall.cancel``."""
        self._over(UnavailableError("the call was cancelled"))


class SimCalls:
    """All calls of one client process; implements ``Calls``."""

    def __init__(self) -> None:
        self.begun_at: list[float] = []
        """The start of each call, in virtual seconds."""
        self._tasks = Tasks()

    def begin(self, address: str, method: Method) -> SimCall:
        """See ``RpcTransport.begin``."""
        self.begun_at.append(asyncio.get_running_loop().time())
        return SimCall(address, method, self._tasks)

    async def call_unary(
        self, address: str, method: Method, request: Message, timeout_s: float
    ) -> Message:
        """See ``RpcTransport.call_unary``."""
        call = self.begin(address, method)
        try:
            async with asyncio.timeout(timeout_s):
                await call.write(request)
                answer = await call.read()
        except TimeoutError as error:
            raise DeadlineExceededError(f"{address} did not answer") from error
        finally:
            call.cancel()
        assert answer is not None
        return answer

    async def aclose(self) -> None:
        """See ``RpcTransport.aclose``."""
        await self._tasks.aclose()


# --- the proxy's side ---------------------------------------------------------------------------


class CallWatch(Protocol):
    """Knows the callers of a run, and is told what proxies receive and send."""

    def caller(self, host: str) -> Caller:
        """Return the caller that the process on a host is."""
        ...

    def received(self, caller: Caller, method: Method, message: Message) -> None:
        """Note a message that a proxy received."""
        ...

    def sent(self, caller: Caller, method: Method, message: Message) -> None:
        """Note a message that a proxy hands over to be sent."""
        ...


class _NoWatch:
    """Everyone is anonymous, and nothing is noted."""

    def caller(self, host: str) -> Caller:
        return Caller(peer=host)

    def received(self, caller: Caller, method: Method, message: Message) -> None:
        pass

    def sent(self, caller: Caller, method: Method, message: Message) -> None:
        pass


NO_WATCH = _NoWatch()


async def serve_calls(
    calls: GuardedCalls, host: str, port: int, watch: CallWatch = NO_WATCH
) -> None:
    """Serve calls until the process ends. A failing assertion in a call fails the run."""
    tasks = Tasks()
    await asyncio.get_running_loop().create_server(
        lambda: _ServerEnd(calls, tasks, watch), host, port
    )


class _Requests:
    """Iterates over the messages of a call until the connection ends."""

    def __init__(self, end: _End, method: Method, note: Callable[[Message], None]) -> None:
        self._end = end
        self._method = method
        self._note = note

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401 - as many types as methods
        frame = await self._end.take()
        if frame is None:
            raise StopAsyncIteration
        message = self._method.request.FromString(frame[1])
        self._note(message)
        return message


class _ServerEnd(_End):
    def __init__(self, calls: GuardedCalls, tasks: Tasks, watch: CallWatch) -> None:
        super().__init__()
        self._calls = calls
        self._watch = watch
        self._task = tasks.spawn(self._serve(), "call")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._task is not asyncio.current_task():
            self._task.cancel()

    async def _serve(self) -> None:
        frame = await self.take()
        if frame is None:
            return
        if frame[0] != _BEGIN:
            raise InvariantBrokenError(f"a call begins with {frame}, not with a method")
        method = _METHODS[frame[1].decode()]
        assert self.transport is not None
        caller = self._watch.caller(self.transport.get_extra_info("peername")[0])
        requests = _Requests(self, method, partial(self._watch.received, caller, method))
        say = partial(self._say, caller, method)
        try:
            if method.is_stream:
                await self._calls.serve_stream(method, requests, say, caller)
            else:
                request = await anext(requests)
                answer = await self._calls.serve_unary(method, request, caller)
                await say(answer)
        except RhumblineError as error:
            await self.send(_ERROR, encode_details(error, 0))
        else:
            await self.send(_END, b"")
        self.transport.close()

    async def _say(self, caller: Caller, method: Method, answer: Message | bytes) -> None:
        data = answer if isinstance(answer, bytes) else answer.SerializeToString()
        if self._watch is not NO_WATCH:
            self._watch.sent(caller, method, method.response.FromString(data))
        await self.send(_MESSAGE, data)
