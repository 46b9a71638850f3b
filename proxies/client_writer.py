"""The writer of the thin client: the same calls as the core writer's, through a write proxy.

It differs in one thing: it does not take the stream away from anybody. Any number of producers may
write one stream through its proxy; the records of each keep their order.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType

from ..core.log.batch import RECORD_OVERHEAD_BYTES, Append, AppendMany, Batch
from ..core.log.policy import StreamPolicy
from ..core.protocol.errors import (
    ClosedError,
    InvalidArgumentError,
    RecordTooLargeError,
    RhumblineError,
    TooManyRequestsError,
    TxidOutOfOrderError,
)
from ..core.protocol.record_set import (
    TXID_FIRST,
    TXID_LAST,
    Producer,
    encode_record_set,
    extended,
    has_extension,
    numbering,
)
from ..core.runtime.runtime import Runtime
from ..core.runtime.tracing import Step
from .sending import Outgoing, Sender, Transport

PRODUCER_BYTES = 16
OUTSTANDING_BYTES_MAX = 32 << 20
TIMEOUT_MS = 30_000


class ProxyWriter:
    """Appends to one stream; made by ``ProxyNamespace.open_writer``. ``async with`` closes it."""

    def __init__(
        self,
        runtime: Runtime,
        transport: Transport,
        *,
        namespace: str,
        stream: str,
        policy: StreamPolicy,
        timeout_ms: int = TIMEOUT_MS,
        end_stream: Callable[[], Awaitable[None]],
    ) -> None:
        self.stream = stream
        self.last_txid = 0
        """The last txid that was given here; 0 if none was."""
        self.producer = runtime.random_bytes(PRODUCER_BYTES)
        self._clock = runtime.clock
        self._tracer = runtime.tracer
        self._loop = asyncio.get_running_loop()
        self._policy = policy
        self._end_stream = end_stream
        self._timeout_s = timeout_ms / 1000
        self._next_sequence = 0
        self._open: Batch | None = None
        self._is_scheduled = False
        self._refusal: RhumblineError | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self.sender = Sender(transport, (namespace, stream), runtime.random, self._on_change)

    # --- appending ------------------------------------------------------------------------------

    def append(self, payload: bytes, txid: int | None = None) -> Append:
        """Appends a record and returns at once; await the result for its position.

        Errors as the core writer's; the proxy gives txids to records that have none. A failure that
        may pass is tried again until the time-out, without doubling the record.
        """
        batch = self._open
        if txid is None and batch is not None and payload.__class__ is bytes:
            room = batch.room - len(payload) - RECORD_OVERHEAD_BYTES
            if room >= 0:
                batch.room = room
                ticket = Append(batch, len(batch.payloads))
                batch.payloads.append(payload)
                return ticket
        payload = self._checked(payload)
        self._check_open()
        batch = self._buffer_for(len(payload) + RECORD_OVERHEAD_BYTES, txid)
        batch.payloads.append(payload)
        return Append(batch, len(batch.payloads) - 1)

    def append_many(
        self, payloads: Sequence[bytes], txids: Sequence[int] | None = None
    ) -> AppendMany:
        """Appends records in order. All or none are taken; they may come to lie in several sets."""
        if not payloads:
            raise InvalidArgumentError("append_many needs at least one record")
        if txids is not None:
            if len(txids) != len(payloads):
                raise InvalidArgumentError(f"{len(payloads)} records and {len(txids)} txids")
            before = self.last_txid
            for txid in txids:
                _check_txid(self.stream, txid, before)
                before = txid
        checked = [self._checked(payload) for payload in payloads]
        self._check_open()
        spans: list[tuple[Batch, int, int]] = []
        for index, payload in enumerate(checked):
            batch = self._buffer_for(
                len(payload) + RECORD_OVERHEAD_BYTES, None if txids is None else txids[index]
            )
            batch.payloads.append(payload)
            if spans and spans[-1][0] is batch:
                spans[-1] = (batch, spans[-1][1], spans[-1][2] + 1)
            else:
                spans.append((batch, len(batch.payloads) - 1, 1))
        return AppendMany(spans)

    def append_set(self, encoded: bytes, *, keeps_txids: bool = False) -> AppendMany:
        """Appends a record set as the core writer does, for one producer that numbers its sets.

        A set that the stream has already is not appended again. Not to be mixed with other appends.
        One that has extensions goes as it is: if it is traced, whoever made it traces it.
        """
        self._check_open()
        count, producer = numbering(encoded)
        batch = Batch(0, TXID_FIRST, 0)
        batch.count = count
        if self._tracer is not None and not has_extension(encoded):
            batch.trace(self._tracer.sample(Step.APPEND, stream=self.stream))
            if batch.span is not None:
                encoded = extended(encoded, batch.extension())
        deadline = self._loop.time() + self._timeout_s
        self.sender.submit(
            Outgoing(
                batch, encoded, sequence=producer.first_sequence, keeps_txids=keeps_txids,
                deadline=deadline,
            )
        )  # fmt: skip
        return AppendMany([(batch, 0, count)])

    def _buffer_for(self, size: int, txid: int | None) -> Batch:
        """The buffer, with room and the txid noted; the payload must follow at once."""
        if txid is not None:
            _check_txid(self.stream, txid, self.last_txid)
            self.last_txid = txid
        batch = self._open
        # A set keeps its producer's txids or gets one from the proxy, so the two kinds don't mix.
        if batch is None or (batch.txids is None) is not (txid is None) or not batch.use_room(size):
            self._leave()
            room = max(self._policy.flush.bytes_max, size) - size
            batch = self._open = Batch(room, txid or TXID_FIRST, self._clock.wall_ms())
            if txid is not None:
                batch.txids = []
                batch.close_fast_path()
            if self._tracer is not None:
                batch.trace(self._tracer.sample(Step.APPEND, stream=self.stream))
            if not self._is_scheduled:
                self._is_scheduled = True
                self._loop.call_soon(self._on_turn)
        if batch.txids is not None and txid is not None:
            batch.txids.append(txid)
            batch.last_txid = txid
        return batch

    def _on_turn(self) -> None:
        self._is_scheduled = False
        if self.sender.can_send or self.sender.failure is not None:
            self._leave()

    def _leave(self) -> None:
        """The buffer becomes a set and goes to the sender."""
        batch, self._open = self._open, None
        if batch is None:
            return
        count = len(batch.payloads)
        sequence, self._next_sequence = self._next_sequence, self._next_sequence + count
        encoded = encode_record_set(
            batch.payloads,
            first_txid=batch.first_txid,
            last_txid=batch.last_txid,
            txids=batch.txids,
            created_ms=batch.created_ms,
            producer=Producer(self.producer, sequence),
            codec=self._policy.codec,
            extension=batch.extension(),
        )
        batch.count = count
        batch.payloads = []
        deadline = self._loop.time() + self._timeout_s
        keeps = batch.txids is not None
        self.sender.submit(
            Outgoing(batch, encoded, sequence=sequence, keeps_txids=keeps, deadline=deadline)
        )

    # --- waiting and closing --------------------------------------------------------------------

    @property
    def failure(self) -> RhumblineError | None:
        """Why it takes nothing more, ever; None while it is open."""
        return self._refusal or self.sender.failure

    async def room(self) -> None:
        """Waits until little enough is outstanding for more appends. Raises as ``append``."""
        await self._wait_until(
            lambda: (
                self.sender.outstanding_bytes <= OUTSTANDING_BYTES_MAX // 2
                or self.failure is not None
            )
        )
        self._check_open()

    async def flush(self) -> None:
        """Waits until every record appended so far is acknowledged. Raises the first failure."""
        self._leave()
        last = self.sender.last
        if last is not None:
            await Append(last, 0)
        elif self.sender.failure is not None:
            raise self.sender.failure.with_traceback(None)

    async def end_stream(self) -> None:
        """Ends the stream for good, behind all records of this writer, and closes the writer.

        Other producers' records that are acknowledged later than this call began may be before the
        end or refused. Raises the failure of the first record that was not acknowledged.
        """
        await self.close()
        await self._end_stream()

    async def close(self) -> None:
        """Waits until all records are acknowledged (or failed). Safe to repeat.

        Raises the failure, if there was one. The stream stays with its proxy, for others.
        """
        self._refusal = self._refusal or ClosedError(f"the writer of {self.stream} is closed")
        self._leave()
        await self._wait_until(lambda: self.sender.last is None)
        if self.sender.failure is not None and not isinstance(self.sender.failure, ClosedError):
            raise self.sender.failure.with_traceback(None)

    async def abort(self) -> None:
        """Stops at once: what is not acknowledged has an unknown outcome."""
        self._refusal = self._refusal or ClosedError(f"the writer of {self.stream} is closed")
        self._leave()
        self.sender.fail(self._refusal)

    async def __aenter__(self) -> "ProxyWriter":
        """The writer itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes; an error of closing never hides the one that ends the block."""
        try:
            await self.close()
        except RhumblineError:
            if error is None:
                raise

    # --- parts ----------------------------------------------------------------------------------

    def _on_change(self) -> None:
        if self._open is not None and self.sender.can_send and not self._is_scheduled:
            self._leave()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _check_open(self) -> None:
        failure = self.failure
        if failure is not None:
            raise failure.with_traceback(None)
        if self.sender.outstanding_bytes >= OUTSTANDING_BYTES_MAX:
            raise TooManyRequestsError(
                f"stream {self.stream}: {self.sender.outstanding_bytes} bytes are not yet "
                "acknowledged; await room() before appending more"
            )

    def _checked(self, payload: object) -> bytes:
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise InvalidArgumentError(f"a record is bytes, not {type(payload).__name__}")
        if len(payload) > self._policy.record_bytes_max:
            raise RecordTooLargeError(
                f"stream {self.stream}: a record of {len(payload)} bytes is above the limit of "
                f"{self._policy.record_bytes_max}"
            )
        return payload if payload.__class__ is bytes else bytes(payload)


def _check_txid(stream: str, txid: int, before: int) -> None:
    if txid.__class__ is not int or not TXID_FIRST <= txid <= TXID_LAST:
        raise InvalidArgumentError(f"txid {txid!r} is not between {TXID_FIRST} and {TXID_LAST}")
    if txid < before:
        raise TxidOutOfOrderError(f"stream {stream}: txid {txid} is below {before}")
