"""Reads the entries of a stream from a read proxy (rules PRX-17, PRX-21).

The reader of the core client decodes records from them.
"""

import asyncio
from random import Random
from typing import NamedTuple

from google.protobuf.message import Message

from ...core.log.read.entry_source import Chunk
from ...core.protocol.dlsn import dlsn_in
from ...core.protocol.errors import (
    EndOfStreamError,
    GapError,
    InvalidPositionError,
    NoSuchStreamError,
    NotOwnerError,
    ProtocolError,
    RhumblineError,
    UnavailableError,
)
from ...core.protocol.start import Start
from ...core.runtime.primitives.backoff import Backoff
from ..rpc import methods
from ..rpc import rhumbline_pb2 as pb
from ..rpc.grpc_status import decode_position, is_retryable
from ..rpc.messages import encode_start
from ..rpc.rpc_transport import RpcCall
from .channels import Channels
from .silent_reads import HEARTBEAT_MS, ReadRhythm

CREDIT_BYTES = 4 << 20
_SILENCE_SECONDS_MAX = 3.5
"""Maximum silence of a proxy that was asked to send heartbeats, if no other proxy knows better."""
_OPEN_SECONDS_MAX = 10
_PAUSE_MS_MIN = 80
_PAUSE_MS_MAX = 500


class ProxyEntry(NamedTuple):
    """An entry as received."""

    entry_id: int
    payload: bytes


class ProxySource:
    """Entries from a position on. If a call breaks, the next one continues at the same position."""

    def __init__(
        self,
        channels: Channels,
        namespace: str,
        stream: str,
        random: Random,
        *,
        unavailable_ms_max: int,
    ) -> None:
        self.lssn = 0
        self.entry_id = 0
        self._stream_id = ""
        self._channels = channels
        self._backoff = Backoff(random, _PAUSE_MS_MIN, _PAUSE_MS_MAX)
        self._namespace = namespace
        self._stream = stream
        self._key = (f"read {namespace}", stream)
        self._unavailable_s = unavailable_ms_max / 1000
        self._loop = asyncio.get_running_loop()
        self._call: RpcCall | None = None
        self._watched = ""  # the address whose silence is watched for this reader
        self._rhythm: ReadRhythm | None = None
        self._is_lost = False
        self.waiting_since_s: float | None = None
        """See ``WaitingRead``."""
        self._unread_bytes = 0  # received and not yet granted again
        self._address = ""
        self._tried: dict[str, None] = {}
        self._failures = 0  # in a row, since the last response other than the start of a call

    @property
    def is_ready(self) -> bool:
        """Always False: the connection buffers what has arrived."""
        return False

    async def open(self, start: Start, *, advances_if_truncated: bool) -> pb.ReadStart:
        """Read from ``start`` on. Raises NoSuchStreamError, TruncatedError, UnavailableError."""
        request = pb.ReadRequest(
            namespace=self._namespace,
            stream=self._stream,
            credit_bytes=CREDIT_BYTES,
            heartbeat_ms=HEARTBEAT_MS,
            advances_if_truncated=advances_if_truncated,
        )
        encode_start(request, start)
        self._call, begun = await self._begin(request)
        self.lssn, self.entry_id = begun.position.lssn, begun.position.entry_id
        self._stream_id = begun.position.stream_id
        return begun

    async def fetch(self, ahead_bytes: int = 0) -> Chunk:
        """Return the next entries, once there are any. A repeat after an error continues here."""
        while True:
            response = await self._next()
            if response.is_end:
                raise EndOfStreamError(f"stream {self._stream} has ended")
            if response.entries:
                return self._chunk(response)

    async def aclose(self) -> None:
        """End the call. Safe to repeat."""
        call, self._call = self._call, None
        self._unwatch()
        if call is not None:
            call.cancel()

    def proxy_lost(self) -> None:
        """See ``WaitingRead``."""
        self._is_lost = True
        if self._call is not None:
            self._call.cancel()

    # --- parts ----------------------------------------------------------------------------------

    def _chunk(self, response: pb.ReadResponse) -> Chunk:
        position = (response.lssn, response.first_entry_id)
        is_next_segment = response.first_entry_id == 0 and response.lssn > self.lssn
        if position != (self.lssn, self.entry_id) and not is_next_segment:
            raise GapError(
                f"stream {self._stream}: received entry {position}, expected "
                f"{(self.lssn, self.entry_id)}"
            )
        entries = [
            ProxyEntry(response.first_entry_id + offset, payload)
            for offset, payload in enumerate(response.entries)
        ]
        self.lssn = response.lssn
        self.entry_id = response.first_entry_id + len(entries)
        known = response.start_sequence_id if response.HasField("start_sequence_id") else None
        return Chunk(response.lssn, known, entries)

    async def _next(self) -> pb.ReadResponse:
        while True:
            if self._call is None:
                request = pb.ReadRequest(
                    namespace=self._namespace,
                    stream=self._stream,
                    credit_bytes=CREDIT_BYTES,
                    heartbeat_ms=HEARTBEAT_MS,
                )
                encode_start(request, dlsn_in(self._stream_id, self.lssn, self.entry_id, 0))
                self._call = await self._begin_again(request)
            call = self._call
            try:
                async with asyncio.timeout(_SILENCE_SECONDS_MAX):
                    await self._grant(call)
                    response = await self._read(call)
            except TimeoutError:
                call.cancel()
                self._on_broken_call(
                    UnavailableError(f"{self._address} sends no heartbeats"), is_silent=True
                )
                continue
            except RhumblineError as error:
                self._on_broken_call(error, is_silent=self._is_lost)
                continue
            if response is None:
                self._on_broken_call(_ended())
                continue
            assert isinstance(response, pb.ReadResponse)
            self._failures = 0
            self._backoff.reset()
            self._tried.clear()
            self._unread_bytes += sum(map(len, response.entries))
            return response

    def _on_broken_call(self, error: RhumblineError, *, is_silent: bool = False) -> None:
        """Select the proxy for the next call, or raise an error that is final.

        A call that worked and ended is begun again at the same proxy first: a slow reader notices
        the end late, and by then the proxy may be running again.
        """
        self._call = None
        self._unwatch()
        if not is_retryable(error):
            raise error
        is_redirect = isinstance(error, NotOwnerError) and bool(error.owner)
        if self._failures == 0 and not is_redirect and not is_silent:
            self._failures = 1
        else:
            self._switch_address(error)

    async def _read(self, call: RpcCall) -> Message | None:
        """Return the next response; raises UnavailableError also if the proxy was declared lost."""
        self.waiting_since_s = self._loop.time()
        try:
            response = await call.read()
        finally:
            self.waiting_since_s = None
        if response is not None and self._rhythm is not None:
            self._rhythm.on_response(self._loop.time())
        return response

    def _watch(self) -> None:
        self._unwatch()
        self._is_lost = False
        self._watched = self._address
        self._rhythm = self._channels.silent_reads.add(self._address, self)

    def _unwatch(self) -> None:
        if self._rhythm is not None:
            self._rhythm = None
            self._channels.silent_reads.discard(self._watched, self)

    async def _grant(self, call: RpcCall) -> None:
        if self._unread_bytes >= CREDIT_BYTES // 2:
            amount, self._unread_bytes = self._unread_bytes, 0
            await call.write(pb.ReadRequest(credit_bytes=amount))

    async def _begin(self, request: pb.ReadRequest) -> tuple[RpcCall, pb.ReadStart]:
        """Open a call at a proxy that serves it; retries until ``unavailable_ms_max``."""
        give_up_at = self._loop.time() + self._unavailable_s
        while True:
            if self._failures > 2:
                await self._backoff.pause()
            try:
                return await self._try_begin(request)
            except RhumblineError as error:
                if not is_retryable(error) or self._loop.time() >= give_up_at:
                    raise
                self._switch_address(error)

    async def _begin_again(self, request: pb.ReadRequest) -> RpcCall:
        """Continue at a proxy. Raises NoSuchStreamError if another stream has the name now."""
        try:
            return (await self._begin(request))[0]
        except InvalidPositionError as error:
            message = f"stream {self._stream} was deleted while it was read: {error}"
            raise NoSuchStreamError(message) from error

    async def _try_begin(self, request: pb.ReadRequest) -> tuple[RpcCall, pb.ReadStart]:
        channels = self._channels
        if not self._address:
            await channels.ready()
            self._address = channels.owner(self._key) or self._candidates()[0]
        del request.tried[:]
        request.tried.extend(channels.names_of(self._tried))
        call = self._call = channels.begin(self._address, methods.READ)
        self._watch()
        try:
            start = await self._start_of(call, request)
        except BaseException:
            self._unwatch()
            self._call = None
            call.cancel()
            raise
        self._unread_bytes = 0
        channels.directory.report(self._address, None)
        channels.set_owner(self._key, self._address)
        return call, start

    async def _start_of(self, call: RpcCall, request: pb.ReadRequest) -> pb.ReadStart:
        try:
            async with asyncio.timeout(_OPEN_SECONDS_MAX):
                await call.write(request)
                response = await self._read(call)
        except TimeoutError as failure:
            raise UnavailableError(f"{self._address} does not respond") from failure
        if response is None:
            raise _ended()
        assert isinstance(response, pb.ReadResponse)
        if not response.HasField("start"):
            raise ProtocolError(f"{self._address}: first response of a read has no start")
        decode_position(response.start.position)
        start: pb.ReadStart = response.start
        return start

    def _switch_address(self, error: RhumblineError) -> None:
        self._failures += 1
        self._channels.directory.report(self._address, error)
        self._tried[self._address] = None
        if isinstance(error, NotOwnerError) and error.owner:
            self._address = error.owner
            return
        candidates = self._candidates()
        others = [address for address in candidates if address not in self._tried]
        if not others:
            self._tried.clear()
        self._address = (others or candidates)[0]

    def _candidates(self) -> tuple[str, ...]:
        return self._channels.readers_of(self._namespace, self._stream)


def _ended() -> RhumblineError:
    """Return the error of a call that ended without an error before the end of the stream."""
    return NotOwnerError("the proxy ended the call")
