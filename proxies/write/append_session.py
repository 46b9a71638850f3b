"""The server side of one append call, without gRPC: order, limits and results.

Sets of one producer must not overtake each other. If one is refused and a later one is accepted, a
retry of the refused set would be mistaken for a duplicate. Therefore, after any refusal, all later
sets of that producer and stream are refused until one of them carries ``restarts`` (rules PRX-9,
PRX-10).
"""

import asyncio
from collections.abc import Callable

from ...core.protocol.errors import AppendOutcomeUnknownError, NotOwnerError, RhumblineError
from ...core.runtime.trace_context import traceparent_of_set
from ...core.runtime.tracing import Span, Tracer, TraceStep
from ..permissions.append_permits import AppendPermits
from ..quotas.caller_quota import CallerQuota
from ..rpc import rhumbline_pb2 as pb
from ..rpc.messages import AppendResult, decode_item
from .append_item import Appended, AppendItem
from .write_proxy import WriteProxy

ITEM_OVERHEAD_BYTES = 256
"""Bytes counted for each item in addition to its record set."""

RESULTS_MAX = 16_384
"""Maximum number of results that the client has not received; beyond it the call is not read."""


class AppendSession:
    """The items of one append call. ``on_results`` is called when the first result is waiting."""

    def __init__(
        self,
        proxy: WriteProxy,
        on_results: Callable[[], None],
        *,
        bytes_max: int,
        tracer: Tracer | None = None,
        permits: AppendPermits | None = None,
        quota: CallerQuota | None = None,
    ) -> None:
        """Without ``permits`` the caller may append to all streams."""
        self.outstanding_bytes = 0
        """Size of the items that have no result yet."""
        self.outstanding_count = 0
        self._proxy = proxy
        self._on_results = on_results
        self._bytes_max = bytes_max
        self._tracer = tracer
        self._permits = permits
        self._quota = quota
        self._results: list[AppendResult] = []
        self._result_streams: list[tuple[str, str]] = []  # with permits: that of each result
        self._blocked: dict[tuple[str, str, bytes], None] = {}
        self._room: asyncio.Future[None] | None = None
        self._is_pinged = False
        self._client_region = ""

    async def take(self, request: pb.AppendRequest) -> None:
        """Submit the items of a request; an invalid item gets an error as its result.

        A request without items is a ping and gets an empty response. Waits before an item while
        the principal of the call has its share in flight: a request holds many items.
        """
        if request.client_region:
            self._client_region = request.client_region
        if not request.items:
            self._is_pinged = True
            self._on_results()
        for item in request.items:
            if self._quota is not None and self._quota.is_over_share:
                await self._quota.share()
            try:
                decoded = decode_item(item)
            except RhumblineError as error:
                self.outstanding_count += 1
                self._add_result(item.id, error, 0)
            else:
                decoded.client_region = self._client_region
                self.submit(item.id, decoded, restarts=item.restarts)

    def submit(self, id_: int, item: AppendItem, *, restarts: bool) -> None:
        """Submit one item to the proxy; its result carries ``id_``."""
        size = len(item.record_set) + ITEM_OVERHEAD_BYTES
        self.outstanding_bytes += size
        self.outstanding_count += 1
        if self._quota is not None:
            self._quota.begin(size)
        if self._blocked and not self._is_unblocked(item, restarts):
            self._add_result(
                id_, NotOwnerError("an earlier set of this producer was refused"), size
            )
            return
        refusal = self._refusal(item.namespace, item.stream)
        if refusal is None and self._quota is not None:
            refusal = self._quota.refusal_of(item)
        if refusal is not None:
            self._block(item)
            self._add_result(id_, refusal, size)
            return
        span = None if self._tracer is None else _begin(self._tracer, item)

        def on_result(outcome: Appended | RhumblineError) -> None:
            if span is not None:
                _end(span, outcome)
            if outcome.__class__ is not Appended:
                self._block(item)
            self._add_result(id_, outcome, size, (item.namespace, item.stream))

        self._proxy.append(item, on_result)

    def _refusal(self, namespace: str, stream: str) -> RhumblineError | None:
        permits = self._permits
        return None if permits is None else permits.refusal(namespace, stream)

    def _block(self, item: AppendItem) -> None:
        if item.is_numbered:
            self._blocked[item.namespace, item.stream, item.producer] = None

    def _is_unblocked(self, item: AppendItem, restarts: bool) -> bool:
        key = (item.namespace, item.stream, item.producer)
        if restarts:
            self._blocked.pop(key, None)
        return key not in self._blocked

    def take_ping(self) -> bool:
        """Return whether an empty response is due, and reset that."""
        is_pinged, self._is_pinged = self._is_pinged, False
        return is_pinged

    def take_results(self) -> list[AppendResult]:
        """Return the waiting results in order of completion, and remove them.

        The caller sends them at once.
        """
        results, self._results = self._results, []
        if self._permits is not None:
            streams, self._result_streams = self._result_streams, []
            results = list(map(self._checked, results, streams))
        self._wake()
        return results

    def _checked(self, result: AppendResult, stream: tuple[str, str]) -> AppendResult:
        """Return a result without an acknowledgement if the permission has ended (rule SEC-6)."""
        if result[1].__class__ is not Appended or self._refusal(*stream) is None:
            return result
        return result[0], AppendOutcomeUnknownError("the permission ended before the result")

    @property
    def has_results(self) -> bool:
        """True if results are waiting."""
        return bool(self._results)

    async def room(self) -> None:
        """Wait until few enough items and results are outstanding to read more requests."""
        while self._is_full:
            self._room = asyncio.get_running_loop().create_future()
            await self._room
        if self._quota is not None:
            await self._quota.room()

    @property
    def _is_full(self) -> bool:
        return self.outstanding_bytes > self._bytes_max or len(self._results) > RESULTS_MAX

    def _wake(self) -> None:
        if self._room is not None and not self._is_full:
            if not self._room.done():
                self._room.set_result(None)
            self._room = None

    def _add_result(
        self,
        id_: int,
        outcome: Appended | RhumblineError,
        size: int,
        stream: tuple[str, str] = ("", ""),
    ) -> None:
        self.outstanding_bytes -= size
        self.outstanding_count -= 1
        if self._quota is not None and size:
            self._quota.end(size)
        self._results.append((id_, outcome))
        if self._permits is not None:
            self._result_streams.append(stream)
        if len(self._results) == 1:
            self._on_results()
        self._wake()


def _begin(tracer: Tracer, item: AppendItem) -> Span | None:
    producer = traceparent_of_set(item.record_set)
    if producer is None:
        return None
    span = tracer.follow(TraceStep.PROXY, (producer,), stream=item.stream, records=item.count)
    item.trace = span.traceparent
    return span


def _end(span: Span, outcome: Appended | RhumblineError) -> None:
    if isinstance(outcome, Appended):
        span.end(dlsn=str(outcome.first), regions=outcome.regions)
    elif isinstance(outcome, NotOwnerError):  # a redirect is no error: the owner gets the set
        span.end(redirected_to=outcome.owner)
    else:
        span.end(outcome)
