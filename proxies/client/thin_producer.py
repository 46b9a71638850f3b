"""One numbered producer of a stream, through proxies; the writers of a process share it (PRX-11).

Records that are appended before the next message is sent become one record set, so a thousand
writers that await each record cost little more than one writer that does not. An invalid record of
one writer must not fail the others. Therefore writers with own txids, and sets that the application
numbers, get a producer of their own. It sends nothing before the earlier appends of its writer are
settled.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from ...core.log.log_context import LogContext
from ...core.log.policy import StreamPolicy
from ...core.log.write.batch import NO_BATCH, Append, Batch
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import RhumblineError, TooManyRequestsError
from ...core.protocol.record_set import (
    NO_SEQUENCE,
    TXID_FIRST,
    Producer,
    encode_record_set,
    extended,
    has_extension,
    numbering,
)
from ...core.runtime.runtime import Runtime
from ...core.runtime.tracing import TraceStep
from ..rpc.message_coalescing import coalescing_ms
from .producer_sender import OutgoingSet, ProducerSender, Transport

PRODUCER_BYTES = 16
TIMEOUT_MS = 30_000
OUTSTANDING_BYTES_MAX = 32 << 20
CONDITIONAL_MAX = 64
"""Maximum number of conditional appends in progress of one producer."""


class ThinProducer:
    """Gathers records into sets and sends them in order. For one event loop."""

    def __init__(
        self,
        runtime: Runtime,
        transport: Transport,
        key: tuple[str, str],
        policy: StreamPolicy,
        timeout_ms: int = TIMEOUT_MS,
        counts: LogContext | None = None,
    ) -> None:
        """``key`` is (namespace, stream). ``counts`` gets what is acknowledged and what fails."""
        self.identity = runtime.random_bytes(PRODUCER_BYTES)
        self.policy = policy
        self.open = NO_BATCH
        """The batch that accepts records, or NO_BATCH."""
        self._counts = counts
        self._transport = transport
        self._key = key
        self._random = runtime.random
        self._delay_ms_max = coalescing_ms(policy.flush.period_ms)
        self.sender = self._new_sender()
        self._conditional: dict[Batch, ProducerSender] = {}  # in progress
        self.writers = 0
        """Number of writers that use the producer."""
        self._stream = key[1]
        self._clock = runtime.clock
        self._tracer = runtime.tracer
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_ms / 1000
        self._next_sequence = 0
        self._is_scheduled = False
        self._waiters: list[asyncio.Future[None]] = []

    def _new_sender(self) -> ProducerSender:
        return ProducerSender(
            self._transport, self._key, self._random, self._on_change, self._on_settled
        )

    @property
    def failure(self) -> RhumblineError | None:
        """The reason why the producer accepts no more records; None while it works."""
        return self.sender.failure

    def wall_ms(self) -> int:
        """Return the time of day in ms."""
        return self._clock.wall_ms()

    def check_room(self) -> None:
        """Raise the failure, or TooManyRequestsError if too many bytes are outstanding."""
        sender = self.sender
        if sender.failure is not None:
            raise sender.failure.with_traceback(None)
        if sender.outstanding_bytes >= OUTSTANDING_BYTES_MAX:
            raise TooManyRequestsError(
                f"stream {self._stream}: {sender.outstanding_bytes} bytes of at most "
                f"{OUTSTANDING_BYTES_MAX} are not acknowledged; await room() before more appends"
            )

    def record_room(self, *, has_txids: bool) -> int:
        """Return how many bytes of records, with own txids or without, fit the open batch."""
        batch = self.open
        return batch.free_bytes() if (batch.txids is not None) is has_txids else 0

    def batch_for(self, size: int, txid: int | None) -> Batch:
        """Return the open batch with room and txid reserved; add the payload before any await."""
        batch = self.open
        # A set has its producer's txids or gets one from the proxy, so the two kinds do not mix.
        if (batch.txids is None) is not (txid is None) or not batch.reserve(size):
            self.seal_batch()
            batch = self._begin(size, txid)
        elif batch.span is not None:
            batch.span.join()
        if batch.txids is not None and txid is not None:
            batch.txids.append(txid)
            batch.last_txid = txid
        return batch

    def _begin(self, size: int, txid: int | None) -> Batch:
        room = max(self.policy.flush.bytes_max, size) - size
        batch = self.open = Batch(room, txid or TXID_FIRST, self._clock.wall_ms())
        if txid is not None:
            batch.txids = []
            batch.close_fast_path()
        if self._tracer is not None:
            batch.trace(self._tracer.sample(TraceStep.APPEND, stream=self._stream))
        if not self._is_scheduled:
            self._is_scheduled = True
            self.sender.before_sending(self._on_sending, self._delay_ms_max)
        return batch

    def _on_sending(self) -> None:
        self._is_scheduled = False
        if self.sender.can_send or self.sender.failure is not None:
            self.seal_batch()

    def seal_batch(self) -> None:
        """Encode the open batch, if there is one, and pass it to the sender."""
        batch = self.open
        if batch is NO_BATCH:
            return
        self.open = NO_BATCH
        count = len(batch.payloads)
        sequence, self._next_sequence = self._next_sequence, self._next_sequence + count
        encoded = encode_record_set(
            batch.payloads,
            first_txid=batch.first_txid,
            last_txid=batch.last_txid,
            txids=batch.txids,
            created_ms=batch.created_ms,
            producer=Producer(self.identity, sequence),
            codec=self.policy.codec,
            extension=batch.extension(),
            attributes=batch.attributes,
        )
        batch.count = count
        batch.payloads = []
        batch.attributes = None
        self._submit(batch, encoded, sequence, keeps_txids=batch.txids is not None)

    def submit_set(self, encoded: bytes, *, keeps_txids: bool) -> Batch:
        """Send a record set that the application made and numbered."""
        count, producer = numbering(encoded)
        batch = Batch(0, TXID_FIRST, self._clock.wall_ms())
        batch.count = count
        if self._tracer is not None and not has_extension(encoded):
            batch.trace(self._tracer.sample(TraceStep.APPEND, stream=self._stream))
            if batch.span is not None:
                encoded = extended(encoded, batch.extension())
        self._submit(batch, encoded, producer.first_sequence, keeps_txids=keeps_txids)
        return batch

    def submit_if(self, encoded: bytes, *, keeps_txids: bool, expected: Dlsn) -> Batch:
        """Send an unnumbered set, to be appended only if the stream ends at ``expected``.

        It has a sender of its own, which may repeat it: the records move the end, so they are
        stored once (rule PRX-62). It is sent when everything that was appended before is settled.
        Raises TooManyRequestsError.
        """
        self.seal_batch()
        if len(self._conditional) >= CONDITIONAL_MAX:
            raise TooManyRequestsError(
                f"stream {self._stream}: {CONDITIONAL_MAX} conditional appends are in progress"
            )
        batch = Batch(0, TXID_FIRST, self._clock.wall_ms())
        batch.count = numbering(encoded)[0]
        batch.bytes = len(encoded)
        sender = self._new_sender()
        self._conditional[batch] = sender
        batch.callbacks.append(partial(self._on_decided, batch))
        sender.follow(self.sender)
        deadline = self._loop.time() + self._timeout_s
        sender.submit(
            OutgoingSet(
                batch,
                encoded,
                sequence=NO_SEQUENCE,
                keeps_txids=keeps_txids,
                deadline=deadline,
                expected=expected,
            )
        )
        return batch

    def _on_decided(self, batch: Batch) -> None:
        del self._conditional[batch]
        self._on_change()

    def fail(self, failure: RhumblineError) -> None:
        """Stop sending. Records that may have arrived get an unknown outcome."""
        self.seal_batch()
        self.sender.fail(failure)
        for sender in list(self._conditional.values()):
            sender.fail(failure)

    def _submit(self, batch: Batch, encoded: bytes, sequence: int, *, keeps_txids: bool) -> None:
        batch.bytes = len(encoded)
        deadline = self._loop.time() + self._timeout_s
        outgoing = OutgoingSet(
            batch, encoded, sequence=sequence, keeps_txids=keeps_txids, deadline=deadline
        )
        self.sender.submit(outgoing)

    # --- waiting --------------------------------------------------------------------------------

    async def room(self) -> None:
        """Wait until few enough bytes are outstanding, or the producer failed."""
        while self.sender.failure is None and (
            self.sender.outstanding_bytes > OUTSTANDING_BYTES_MAX // 2
        ):
            await self._changed()

    async def _changed(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    async def flush(self) -> None:
        """Wait until every record so far is acknowledged, and conditional ones are decided.

        Raises the first failure, which is not that of a conditional append.
        """
        self.seal_batch()
        while self._conditional:
            await self._changed()
        last = self.sender.last
        if last is not None:
            await Append(last, 0)
        elif self.sender.failure is not None:
            raise self.sender.failure.with_traceback(None)

    def _on_settled(self, batch: Batch) -> None:
        counts = self._counts
        if counts is None:
            return
        if batch.failure is None:
            counts.add_acknowledged(batch, self._clock.wall_ms())
        else:
            counts.add_failed(batch.failure, batch.count)

    def _on_change(self) -> None:
        is_ready = self.sender.can_send or self.sender.failure is not None
        if is_ready and self.open is not NO_BATCH and not self._is_scheduled:
            self.seal_batch()
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)


class ThinProducers:
    """The producers that the writers of a client process share, one for each stream."""

    def __init__(self, make: Callable[[tuple[str, str], StreamPolicy], ThinProducer]) -> None:
        self._make = make
        self._shared: dict[tuple[str, str], ThinProducer] = {}

    def own(self, key: tuple[str, str], policy: StreamPolicy) -> ThinProducer:
        """Return a new producer for a single writer."""
        return self._make(key, policy)

    def join(self, key: tuple[str, str], policy: StreamPolicy) -> ThinProducer:
        """Return the shared producer of a stream and count one more writer.

        It is a new one after a failure and after a change of the policy.
        """
        found = self._shared.get(key)
        if found is None or found.failure is not None or found.policy != policy:
            found = self._shared[key] = self._make(key, policy)
        found.writers += 1
        return found

    def leave(self, key: tuple[str, str], producer: ThinProducer) -> None:
        """Decrement the number of writers; after the last one remove the producer."""
        producer.writers -= 1
        if producer.writers == 0 and self._shared.get(key) is producer:
            del self._shared[key]
