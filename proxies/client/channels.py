"""What the client knows of proxies, and its one append call to each, apart from gRPC.

All sets of a process for one proxy go through one call; what is ready at the same time goes into
one message, since a call carries some thousand messages a second whatever they hold.
"""

import asyncio
from collections.abc import Callable

from google.protobuf.message import Message

from ...core.protocol.errors import (
    AppendOutcomeUnknownError,
    ClosedError,
    NotOwnerError,
    ProtocolError,
    RefusedError,
    RhumblineError,
    UnavailableError,
)
from ...core.runtime.tasks import Tasks
from ..rpc import methods
from ..rpc import rhumbline_pb2 as pb
from ..rpc.message_coalescing import MessagePacer
from ..rpc.messages import add_item, decode_answers
from ..rpc.rpc_transport import RpcCall, RpcTransport
from ..write.append_item import Appended
from .producer_sender import Outgoing

_MESSAGE_BYTES = 1 << 20
_PING_SECONDS = 0.25
_SILENCE_SECONDS_MAX = 1.5
"""Of a proxy that owes answers. gRPC's own keepalive missed a stopped process for a minute."""
_OWNERS_MAX = 100_000

OnAnswer = Callable[[Appended | RhumblineError], None]


class AppendCall:
    """One append call. Over with the first error; the next set begins another one."""

    def __init__(self, call: RpcCall, tasks: Tasks, address: str) -> None:
        self.is_over = False
        self._call = call
        self._address = address
        self._outbox: list[tuple[int, tuple[str, str], Outgoing, bool, tuple[str, ...]]] = []
        self._ready: list[Callable[[], None]] = []
        self._wake = asyncio.Event()
        self._waiting: dict[int, OnAnswer] = {}
        self._next_id = 1
        self._sent_id = 0  # all up to this one may have arrived
        self._is_pinging = False
        self._heard_at = 0.0
        self._silence: RhumblineError | None = None
        tasks.spawn(self._run(), f"append call to {address}")

    def send(
        self, key: tuple[str, str], out: Outgoing, on_answer: OnAnswer, restarts: bool,
        tried: tuple[str, ...],
    ) -> None:  # fmt: skip
        """Sends a set with the next message."""
        assert not self.is_over
        id_, self._next_id = self._next_id, self._next_id + 1
        self._waiting[id_] = on_answer
        self._outbox.append((id_, key, out, restarts, tried))
        self._wake.set()

    def before_sending(self, callback: Callable[[], None]) -> None:
        """Calls back when the next message is about to leave, which is soon."""
        self._ready.append(callback)
        self._wake.set()

    async def _run(self) -> None:
        reading = Tasks(on_failure=lambda _: self._wake.set())
        answers = reading.spawn(self._read(), f"answers of {self._address}")
        reading.spawn(self._listen(), f"pings of {self._address}")
        why: RhumblineError = ClosedError("the client is closed")
        pace = MessagePacer()
        try:
            while not answers.done():
                await self._wake.wait()
                await pace.wait(len(self._waiting))
                self._wake.clear()
                self._call_ready()
                while (self._outbox or self._is_pinging) and not (answers.done() or self._silence):
                    self._is_pinging = False
                    await self._call.write(self._message())
            why = self._silence or answers.result()
        finally:
            self._end(why)
            self._call.cancel()
            await reading.aclose()

    def _call_ready(self) -> None:
        ready, self._ready = self._ready, []
        for callback in ready:
            callback()

    def _message(self) -> pb.AppendRequest:
        request = pb.AppendRequest()
        size = taken = 0
        for id_, key, out, restarts, tried in self._outbox:
            add_item(request, id_, key, out, restarts=restarts, tried=tried)
            taken += 1
            size += len(out.encoded)
            self._sent_id = id_
            if size >= _MESSAGE_BYTES:
                break
        del self._outbox[:taken]
        return request

    async def _listen(self) -> None:
        """Ends the call when the proxy owes answers and is silent, though it was pinged."""
        loop = asyncio.get_running_loop()
        self._heard_at = loop.time()
        while True:
            if not self._waiting:
                self._heard_at = loop.time()
            elif loop.time() - self._heard_at > _SILENCE_SECONDS_MAX:
                self._silence = UnavailableError("it is silent")
                self._call.cancel()
                return
            elif loop.time() - self._heard_at > _PING_SECONDS:
                self._is_pinging = True
                self._wake.set()
            await asyncio.sleep(_PING_SECONDS)

    async def _read(self) -> RhumblineError:
        """Gives out answers until the call is over; returns why."""
        try:
            while (response := await self._call.read()) is not None:
                assert isinstance(response, pb.AppendResponse)
                self._heard_at = asyncio.get_running_loop().time()
                for id_, answer in decode_answers(response):
                    self._waiting.pop(id_)(answer)
            return UnavailableError(f"{self._address} ended the call")
        except RhumblineError as failure:
            return failure
        except KeyError as failure:
            return ProtocolError(f"{self._address} answered what was not asked: {failure}")
        finally:
            self._wake.set()

    def _end(self, why: RhumblineError) -> None:
        """Everything without an answer gets one.

        A call that its proxy refuses as a whole, by naming another proxy or saying what is wrong
        with it, has taken nothing. That it is closed here says nothing of what was sent.
        """
        self.is_over = True
        waiting, self._waiting = self._waiting, {}
        is_refused = isinstance(why, RefusedError) and not isinstance(why, ClosedError)
        is_definite = is_refused or isinstance(why, NotOwnerError)
        for id_, on_answer in waiting.items():
            if id_ > self._sent_id or is_definite:
                on_answer(why)
            else:
                unknown = AppendOutcomeUnknownError(f"{self._address}: {why}")
                unknown.__cause__ = why
                on_answer(unknown)
        self._call_ready()


class Channels:
    """What one client process knows of all proxies; what ``Sender`` calls its transport."""

    def __init__(self, addresses: tuple[str, ...], calls: RpcTransport) -> None:
        self.addresses = addresses
        self.tasks = Tasks()
        self._calls = calls
        self._appending: dict[str, AppendCall] = {}
        self._owners: dict[tuple[str, str], str] = {}
        self._is_closed = False

    def begin(self, address: str, method: methods.Method) -> RpcCall:
        """Begins a call with streams. Raises ClosedError."""
        self._check(address)
        return self._calls.begin(address, method)

    async def ask(
        self, address: str, method: methods.Method, request: Message, timeout_s: float
    ) -> Message:
        """One request and its answer. Raises ClosedError, and as ``RpcTransport.ask``."""
        self._check(address)
        return await self._calls.ask(address, method, request, timeout_s)

    def _check(self, address: str) -> None:
        if self._is_closed:
            raise ClosedError("the client is closed")
        if address not in self.addresses:
            self.addresses = (*self.addresses, address)

    def owner(self, key: tuple[str, str]) -> str | None:
        """The address that last served the stream."""
        return self._owners.get(key)

    def set_owner(self, key: tuple[str, str], address: str | None) -> None:
        """Notes who serves the stream."""
        self._owners.pop(key, None)
        if address is not None:
            self._owners[key] = address
            if len(self._owners) > _OWNERS_MAX:
                del self._owners[next(iter(self._owners))]

    def send(
        self,
        address: str,
        key: tuple[str, str],
        out: Outgoing,
        on_answer: OnAnswer,
        *,
        restarts: bool,
        tried: tuple[str, ...],
    ) -> None:
        """Sends a set to a proxy; calls back once, later."""
        call = self._call_to(address)
        if call is None:
            if self._is_closed:
                error = ClosedError("the client is closed")
                asyncio.get_running_loop().call_soon(on_answer, error)
                return
            call = AppendCall(self.begin(address, methods.APPEND), self.tasks, address)
            self._appending[address] = call
        call.send(key, out, on_answer, restarts, tried)

    def before_sending(self, address: str, callback: Callable[[], None]) -> None:
        """Calls back when the next message to a proxy is about to leave, which is soon."""
        call = self._call_to(address)
        if call is None:
            asyncio.get_running_loop().call_soon(callback)
        else:
            call.before_sending(callback)

    def _call_to(self, address: str) -> AppendCall | None:
        call = self._appending.get(address)
        return None if call is None or call.is_over else call

    async def aclose(self) -> None:
        """Ends all calls and closes the connections. Safe to repeat."""
        self._is_closed = True
        await self.tasks.aclose()
        await self._calls.aclose()
