"""A call of ``HoldMembership``: a member's session, held by a proxy (rule PRX-60).

The proxy ends the session when it has heard nothing for the whole time-out. The client gives it up
earlier, when two thirds of the time-out have passed since it sent the last message that was
answered, so it never reads a partition that another member may already have.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ....core.protocol.errors import RhumblineError, UnavailableError
from ....core.runtime.tasks import Tasks
from ...rpc import rhumbline_pb2 as pb
from ...rpc.grpc_status import decode_error
from ...rpc.rpc_transport import RpcCall

OPEN_SECONDS_MAX = 5.0
OPERATION_SECONDS_MAX = 10.0
LEAVE_SECONDS_MAX = 2.0
_SESSIONLESS_TTL_MS = 6_000
_HEARTBEATS_PER_TTL = 6


class GroupConnection:
    """An open call, whose loss is the loss of the session. For one event loop."""

    def __init__(
        self, call: RpcCall, address: str, ttl_ms: int, on_changed: Callable[[], None]
    ) -> None:
        """``ttl_ms`` 0: without a session. ``on_changed`` is called after changes and the loss."""
        self.address = address
        self.failure: RhumblineError | None = None
        """Why the call is over; None while it works."""
        self._call = call
        self._ttl_ms = ttl_ms
        self._ttl_s = (ttl_ms or _SESSIONLESS_TTL_MS) / 1000
        self._on_changed = on_changed
        self._on_lost: list[Callable[[], None]] = []
        self._tasks = Tasks(on_failure=self._on_bug)
        self._loop = asyncio.get_running_loop()
        self._next_id = 1
        self._sent_at: dict[int, float] = {}
        self._waiting: dict[int, asyncio.Future[pb.GroupResponse]] = {}
        self._lease_ends_at = 0.0
        self._writing = asyncio.Lock()

    async def open(self, namespace: str, topic: str, group: str) -> None:
        """Begin the session. Raises what the proxy raises, and UnavailableError."""
        self._lease_ends_at = self._loop.time() + OPEN_SECONDS_MAX
        self._tasks.spawn(self._read(), f"answers of {self.address}")
        first = pb.GroupRequest(
            namespace=namespace, topic=topic, group=group, session_ttl_ms=self._ttl_ms
        )
        try:
            await self.request(first, OPEN_SECONDS_MAX)
        except BaseException as error:
            refusal = self.failure
            await self.aclose()
            if isinstance(error, UnavailableError) and refusal is not None:
                raise refusal.with_traceback(None) from None
            raise
        self._tasks.spawn(self._keep_alive(), f"heartbeats to {self.address}")

    async def request(
        self, request: pb.GroupRequest, timeout_s: float = OPERATION_SECONDS_MAX
    ) -> pb.GroupResponse:
        """Send a request and return its answer.

        Raises the error in the answer, and UnavailableError if there is none, with ``failure`` as
        its cause: the outcome is unknown then.
        """
        answer: asyncio.Future[pb.GroupResponse] = self._loop.create_future()
        if self.failure is not None:
            raise UnavailableError(f"the call to {self.address} is over") from self.failure
        try:
            async with asyncio.timeout(timeout_s):
                await self._send(request, answer)
                response = await answer
        except TimeoutError as error:
            raise UnavailableError(f"{self.address} does not respond") from error
        finally:
            self._waiting.pop(request.id, None)
        if response.HasField("error"):
            raise decode_error(response.error)
        return response

    async def _send(
        self, request: pb.GroupRequest, answer: "asyncio.Future[pb.GroupResponse] | None" = None
    ) -> None:
        request.id, self._next_id = self._next_id, self._next_id + 1
        self._sent_at[request.id] = self._loop.time()
        if answer is not None:
            self._waiting[request.id] = answer
        async with self._writing:
            await self._call.write(request)

    async def _read(self) -> None:
        try:
            while (response := await self._call.read()) is not None:
                assert isinstance(response, pb.GroupResponse)
                self._accept(response)
            self._end(UnavailableError(f"{self.address} ended the call"))
        except RhumblineError as error:
            self._end(error)

    def _accept(self, response: pb.GroupResponse) -> None:
        sent_at = self._sent_at.pop(response.id, None)
        if sent_at is not None:
            self._lease_ends_at = sent_at + self._ttl_s * 2 / 3
            for id_ in [older for older in self._sent_at if older < response.id]:
                if id_ not in self._waiting:
                    del self._sent_at[id_]  # a heartbeat that a newer one replaced
        waiter = self._waiting.get(response.id)
        if waiter is not None and not waiter.done():
            waiter.set_result(response)
        if response.has_changed:
            self._on_changed()

    async def _keep_alive(self) -> None:
        while self.failure is None:
            left_s = self._lease_ends_at - self._loop.time()
            if left_s <= 0:
                self._end(UnavailableError(f"{self.address} sends no responses"))
                return
            await asyncio.sleep(min(self._ttl_s / _HEARTBEATS_PER_TTL, left_s))
            if not self._writing.locked():
                await self._send(pb.GroupRequest())

    # --- the session ----------------------------------------------------------------------------

    @property
    def is_lost(self) -> bool:
        """True if the session is known to be lost, or the proxy may have ended it."""
        return self.failure is not None or self._loop.time() >= self._lease_ends_at

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when the session is lost; immediately if it is lost already."""
        if self.failure is None:
            self._on_lost.append(callback)
        else:
            callback()

    async def close(self) -> None:
        """End the session with its nodes, then the call. Safe to repeat."""
        try:
            if self.failure is None:
                # The answer is the end of the call. Without one, the session expires.
                with suppress(UnavailableError):
                    await self.request(pb.GroupRequest(leave=True), LEAVE_SECONDS_MAX)
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """End the call; the proxy then ends the session. Safe to repeat."""
        self._on_lost.clear()
        self._end(UnavailableError("the call was closed"))
        await self._tasks.aclose()

    def _end(self, reason: RhumblineError) -> None:
        if self.failure is not None:
            return
        self.failure = reason
        self._call.cancel()
        for waiter in self._waiting.values():
            if not waiter.done():
                error = UnavailableError(f"{self.address}: {reason}")
                error.__cause__ = reason
                waiter.set_exception(error)
                waiter.exception()  # whoever waits for it may have been cancelled in this moment
        callbacks, self._on_lost = self._on_lost, []
        for callback in callbacks:
            callback()
        self._on_changed()

    def _on_bug(self, error: BaseException) -> None:
        self._loop.call_exception_handler(
            {"message": f"the group call to {self.address} failed", "exception": error}
        )
        self._end(UnavailableError(f"{self.address}: {error!r}"))
