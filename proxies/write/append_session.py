"""One client's append call, apart from gRPC: order, limits and answers.

Sets of a producer must not overtake each other: if one is refused and the next is taken, sending
the first again would look like a repeat. So after a refusal, whatever its reason, all later sets of
that producer and stream are refused too, until one comes that says that it restarts.
"""

import asyncio
from collections.abc import Callable

from ...core.protocol.errors import NotOwnerError, RhumblineError
from ...core.protocol.trace_context import traceparent_of_set
from ...core.runtime.tracing import Span, Tracer, TraceStep
from ..rpc import rhumbline_pb2 as pb
from ..rpc.messages import Answer, decode_item
from .append_item import Appended, AppendItem
from .write_proxy import WriteProxy

ITEM_OVERHEAD_BYTES = 256
"""Counted for each item beside its set."""

ANSWERS_MAX = 16_384
"""Answers that wait for a client that does not take them; then nothing more is read from it."""


class AppendSession:
    """``on_answers`` is called when answers wait that were not there before."""

    def __init__(
        self,
        proxy: WriteProxy,
        on_answers: Callable[[], None],
        *,
        bytes_max: int,
        tracer: Tracer | None = None,
    ) -> None:
        self.outstanding_bytes = 0
        """Of items without an answer."""
        self.outstanding_count = 0
        self._proxy = proxy
        self._on_answers = on_answers
        self._bytes_max = bytes_max
        self._tracer = tracer
        self._answers: list[Answer] = []
        self._blocked: dict[tuple[str, str, bytes], None] = {}
        self._room: asyncio.Future[None] | None = None
        self._is_pinged = False

    def take(self, request: pb.AppendRequest) -> None:
        """Hands its items to the proxy; what is none is refused, and none at all asks for a sign of
        life."""
        if not request.items:
            self._is_pinged = True
            self._on_answers()
        for item in request.items:
            try:
                one = decode_item(item)
            except RhumblineError as error:
                self.outstanding_count += 1
                self._answer(item.id, error, 0)
            else:
                self.submit(item.id, one, restarts=item.restarts)

    def submit(self, id_: int, item: AppendItem, *, restarts: bool) -> None:
        """Hands an item to the proxy; its answer comes with ``id_``."""
        size = len(item.record_set) + ITEM_OVERHEAD_BYTES
        self.outstanding_bytes += size
        self.outstanding_count += 1
        if self._blocked and not self._unblocked(item, restarts):
            self._answer(id_, NotOwnerError("a set before this one was refused"), size)
            return

        span = None if self._tracer is None else _begin(self._tracer, item)

        def done(outcome: Appended | RhumblineError) -> None:
            if span is not None:
                _end(span, outcome)
            if outcome.__class__ is not Appended and item.is_numbered:
                self._blocked[item.namespace, item.stream, item.producer] = None
            self._answer(id_, outcome, size)

        self._proxy.append(item, done)

    def _unblocked(self, item: AppendItem, restarts: bool) -> bool:
        key = (item.namespace, item.stream, item.producer)
        if restarts:
            self._blocked.pop(key, None)
        return key not in self._blocked

    def take_ping(self) -> bool:
        """Whether an empty answer is wanted."""
        is_pinged, self._is_pinged = self._is_pinged, False
        return is_pinged

    def take_answers(self) -> list[Answer]:
        """What waits, in order of completion."""
        answers, self._answers = self._answers, []
        self._wake()
        return answers

    @property
    def has_answers(self) -> bool:
        """Whether ``take_answers`` would give some."""
        return bool(self._answers)

    async def room(self) -> None:
        """Waits until little enough is outstanding, and not taken, to read on."""
        while self._is_full:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    @property
    def _is_full(self) -> bool:
        return self.outstanding_bytes > self._bytes_max or len(self._answers) > ANSWERS_MAX

    def _wake(self) -> None:
        if self._room is not None and not self._is_full:
            if not self._room.done():
                self._room.set_result(None)
            self._room = None

    def _answer(self, id_: int, outcome: Appended | RhumblineError, size: int) -> None:
        self.outstanding_bytes -= size
        self.outstanding_count -= 1
        self._answers.append((id_, outcome))
        if len(self._answers) == 1:
            self._on_answers()
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
    else:
        span.end(outcome)
