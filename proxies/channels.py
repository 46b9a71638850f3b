"""The client's connections: a gRPC channel and one append call for each proxy.

All sets of a process for one proxy go through one call; what is ready at the same time goes into
one message, since a call carries some thousand messages a second whatever they hold.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from ..core.protocol.errors import (
    AppendOutcomeUnknownError,
    ClosedError,
    ProtocolError,
    RhumblineError,
    UnavailableError,
)
from ..core.runtime.tasks import Tasks
from . import methods
from . import rhumbline_pb2 as pb
from .append_session import BUSY_COUNT, GATHER_SECONDS
from .items import Placed
from .messages import add_item, decode_answer
from .sending import Outgoing
from .status import DETAILS_KEY, decode_details, error_of_status

_MESSAGE_BYTES = 1 << 20
_PING_SECONDS = 0.25
_SILENCE_SECONDS_MAX = 1.5
"""Of a proxy that owes answers. gRPC's own keepalive missed a stopped process for a minute."""
_OWNERS_MAX = 100_000

OnAnswer = Callable[[Placed | RhumblineError], None]


def error_of_call(error: grpc.aio.AioRpcError) -> RhumblineError:
    """What a failed call means."""
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            known = decode_details(value)
            if known is not None:
                return known
    return error_of_status(error.code().name, error.details() or "")


class AppendCall:
    """One append call. Over with the first error; the next set begins another one."""

    def __init__(self, channel: grpc.aio.Channel, tasks: Tasks, address: str) -> None:
        self.is_over = False
        self._channel = channel
        self._address = address
        self._outbox: list[tuple[int, tuple[str, str], Outgoing, bool, tuple[str, ...]]] = []
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

    async def _run(self) -> None:
        call: Any = self._channel.stream_stream(
            methods.APPEND.path,
            request_serializer=pb.AppendRequest.SerializeToString,
            response_deserializer=pb.AppendResponse.FromString,
        )()
        reading = Tasks(on_failure=lambda _: self._wake.set())
        answers = reading.spawn(self._read(call), f"answers of {self._address}")
        reading.spawn(self._listen(call), f"pings of {self._address}")
        why: RhumblineError = ClosedError("the client is closed")
        try:
            while not answers.done():
                await self._wake.wait()
                if len(self._waiting) - len(self._outbox) > BUSY_COUNT:
                    await asyncio.sleep(GATHER_SECONDS)
                self._wake.clear()
                while (self._outbox or self._is_pinging) and not answers.done():
                    self._is_pinging = False
                    await call.write(self._message())
            why = answers.result()
        except grpc.aio.AioRpcError as error:
            why = error_of_call(error)
        except (asyncio.InvalidStateError, grpc.aio.UsageError) as error:
            why = UnavailableError(f"{self._address}: the call is over: {error}")
        except asyncio.CancelledError:
            if self._silence is None:
                raise
            why = self._silence
        finally:
            self._end(why)
            call.cancel()
            await reading.aclose()

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

    async def _listen(self, call: Any) -> None:  # noqa: ANN401 - grpc's own type
        """Ends the call when the proxy owes answers and is silent, though it was pinged."""
        loop = asyncio.get_running_loop()
        self._heard_at = loop.time()
        while True:
            if not self._waiting:
                self._heard_at = loop.time()
            elif loop.time() - self._heard_at > _SILENCE_SECONDS_MAX:
                self._silence = UnavailableError("it is silent")
                call.cancel()
                return
            elif loop.time() - self._heard_at > _PING_SECONDS:
                self._is_pinging = True
                self._wake.set()
            await asyncio.sleep(_PING_SECONDS)

    async def _read(self, call: Any) -> RhumblineError:  # noqa: ANN401 - grpc's own type
        """Gives out answers until the call is over; returns why."""
        try:
            while (response := await call.read()) is not grpc.aio.EOF:
                self._heard_at = asyncio.get_running_loop().time()
                for answer in response.answers:
                    self._waiting.pop(answer.id)(decode_answer(answer))
            error: RhumblineError = UnavailableError(f"{self._address} ended the call")
            if await call.code() is not grpc.StatusCode.OK:
                error = error_of_call(
                    grpc.aio.AioRpcError(
                        await call.code(),
                        await call.initial_metadata(),
                        await call.trailing_metadata(),
                        await call.details(),
                    )
                )
        except grpc.aio.AioRpcError as failure:
            error = error_of_call(failure)
        except KeyError as failure:
            error = ProtocolError(f"{self._address} answered what was not asked: {failure}")
        finally:
            self._wake.set()
        return error

    def _end(self, why: RhumblineError) -> None:
        """Everything without an answer gets one."""
        self.is_over = True
        waiting, self._waiting = self._waiting, {}
        for id_, on_answer in waiting.items():
            if id_ > self._sent_id or not isinstance(why, UnavailableError):
                on_answer(why)
            else:
                unknown = AppendOutcomeUnknownError(f"{self._address}: {why}")
                unknown.__cause__ = why
                on_answer(unknown)


class Channels:
    """The connections of one client to all proxies; what ``Sender`` calls its transport."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self.addresses = addresses
        self.tasks = Tasks()
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._calls: dict[str, AppendCall] = {}
        self._owners: dict[tuple[str, str], str] = {}
        self._is_closed = False

    def channel(self, address: str) -> grpc.aio.Channel:
        """The channel to a proxy. Raises ClosedError."""
        if self._is_closed:
            raise ClosedError("the client is closed")
        channel = self._channels.get(address)
        if channel is None:
            channel = grpc.aio.insecure_channel(address, options=methods.CHANNEL_OPTIONS)
            self._channels[address] = channel
            if address not in self.addresses:
                self.addresses = (*self.addresses, address)
        return channel

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
        call = self._calls.get(address)
        if call is None or call.is_over:
            if self._is_closed:
                error = ClosedError("the client is closed")
                asyncio.get_running_loop().call_soon(on_answer, error)
                return
            call = self._calls[address] = AppendCall(self.channel(address), self.tasks, address)
        call.send(key, out, on_answer, restarts, tried)

    async def aclose(self) -> None:
        """Closes all calls and channels. Safe to repeat."""
        self._is_closed = True
        await self.tasks.aclose()
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close(None)
