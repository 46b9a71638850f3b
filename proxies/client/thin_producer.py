"""One numbered producer of a stream, through proxies: the writers of a process share one.

What they append before the next message leaves is one record set, so that a thousand writers
that each await every record cost little more than one that does not. What is wrong with the records
of one writer is nobody else's failure: those with txids, and sets that somebody else numbers, have
a producer of their own, which sends nothing before what the writer appended earlier is settled.
"""

import asyncio
from collections.abc import Callable

from ...core.log.policy import StreamPolicy
from ...core.log.write.batch import NO_BATCH, Append, Batch
from ...core.protocol.errors import RhumblineError, TooManyRequestsError
from ...core.protocol.record_set import (
    TXID_FIRST,
    Producer,
    encode_record_set,
    extended,
    has_extension,
    numbering,
)
from ...core.runtime.runtime import Runtime
from ...core.runtime.tracing import TraceStep
from .producer_sender import Outgoing, ProducerSender, Transport

PRODUCER_BYTES = 16
TIMEOUT_MS = 30_000
OUTSTANDING_BYTES_MAX = 32 << 20


class ThinProducer:
    """Gathers records into sets and sends them in order. For one event loop."""

    def __init__(
        self,
        runtime: Runtime,
        transport: Transport,
        key: tuple[str, str],
        policy: StreamPolicy,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """``key`` is (namespace, stream)."""
        self.identity = runtime.random_bytes(PRODUCER_BYTES)
        self.policy = policy
        self.open = NO_BATCH
        """The batch that takes records, or NO_BATCH."""
        self.sender = ProducerSender(transport, key, runtime.random, self._on_change)
        self.writers = 0
        """That use it now."""
        self._stream = key[1]
        self._clock = runtime.clock
        self._tracer = runtime.tracer
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_ms / 1000
        self._next_sequence = 0
        self._is_scheduled = False
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def failure(self) -> RhumblineError | None:
        """Why it takes nothing more, ever."""
        return self.sender.failure

    def check_room(self) -> None:
        """Raises the failure, or TooManyRequestsError."""
        sender = self.sender
        if sender.failure is not None:
            raise sender.failure.with_traceback(None)
        if sender.outstanding_bytes >= OUTSTANDING_BYTES_MAX:
            raise TooManyRequestsError(
                f"stream {self._stream}: {sender.outstanding_bytes} bytes are not yet "
                "acknowledged; await room() before appending more"
            )

    def batch_for(self, size: int, txid: int | None) -> Batch:
        """The open batch, with room taken and the txid noted; the payload must follow at once."""
        batch = self.open
        # A set keeps its producer's txids or gets one from the proxy, so the two kinds don't mix.
        if (batch.txids is None) is not (txid is None) or not batch.use_room(size):
            self.leave()
            batch = self._begin(size, txid)
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
            self.sender.before_sending(self._on_sending)
        return batch

    def _on_sending(self) -> None:
        self._is_scheduled = False
        if self.sender.can_send or self.sender.failure is not None:
            self.leave()

    def leave(self) -> None:
        """The open batch, if there is one, becomes a set and goes to the sender."""
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
        )
        batch.count = count
        batch.payloads = []
        self._submit(batch, encoded, sequence, keeps_txids=batch.txids is not None)

    def submit_set(self, encoded: bytes, *, keeps_txids: bool) -> Batch:
        """Sends a set that somebody else made and numbers."""
        count, producer = numbering(encoded)
        batch = Batch(0, TXID_FIRST, 0)
        batch.count = count
        if self._tracer is not None and not has_extension(encoded):
            batch.trace(self._tracer.sample(TraceStep.APPEND, stream=self._stream))
            if batch.span is not None:
                encoded = extended(encoded, batch.extension())
        self._submit(batch, encoded, producer.first_sequence, keeps_txids=keeps_txids)
        return batch

    def _submit(self, batch: Batch, encoded: bytes, sequence: int, *, keeps_txids: bool) -> None:
        deadline = self._loop.time() + self._timeout_s
        out = Outgoing(
            batch, encoded, sequence=sequence, keeps_txids=keeps_txids, deadline=deadline
        )
        self.sender.submit(out)

    # --- waiting --------------------------------------------------------------------------------

    async def room(self) -> None:
        """Waits until little enough is outstanding for more, or it failed."""
        while self.sender.failure is None and (
            self.sender.outstanding_bytes > OUTSTANDING_BYTES_MAX // 2
        ):
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    async def flush(self) -> None:
        """Waits until every record so far is acknowledged. Raises the first failure."""
        self.leave()
        last = self.sender.last
        if last is not None:
            await Append(last, 0)
        elif self.sender.failure is not None:
            raise self.sender.failure.with_traceback(None)

    def _on_change(self) -> None:
        if self.open is not NO_BATCH and not self._is_scheduled and self.sender.can_send:
            self.leave()
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
        """One for a single writer."""
        return self._make(key, policy)

    def join(self, key: tuple[str, str], policy: StreamPolicy) -> ThinProducer:
        """The shared one of a stream, for one writer more: a new one after a failure, and when the
        policy is not what it was."""
        found = self._shared.get(key)
        if found is None or found.failure is not None or found.policy != policy:
            found = self._shared[key] = self._make(key, policy)
        found.writers += 1
        return found

    def leave(self, key: tuple[str, str], producer: ThinProducer) -> None:
        """One writer less."""
        producer.writers -= 1
        if producer.writers == 0 and self._shared.get(key) is producer:
            del self._shared[key]
