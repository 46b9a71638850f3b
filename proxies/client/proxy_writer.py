"""The writer of the thin client: the methods of the core writer, through a write proxy.

Unlike the core writer it does not take the stream over. Any number of producers may write to one
stream through its proxy; the records of each producer keep their order (rule PRX-8).
"""

from collections.abc import Awaitable, Callable, Sequence

from ...core.log.close_at_exit import ClosesAtExit
from ...core.log.policy import StreamPolicy
from ...core.log.write.append_validation import (
    CheckedRecords,
    as_bytes,
    check_atomic,
    check_attributes,
    check_numbering,
    check_records,
    check_sequence,
    check_txid,
    check_txids,
    split_records,
    too_large,
)
from ...core.log.write.batch import RECORD_OVERHEAD_BYTES, Append, AppendMany, Batch
from ...core.protocol.attributes.attribute_columns import attribute_builder
from ...core.protocol.attributes.attribute_values import Attributes, Headers
from ...core.protocol.dlsn import Dlsn, check_position
from ...core.protocol.errors import ClosedError, InvalidArgumentError, RhumblineError
from ...core.protocol.record_set import TXID_FIRST, Producer, encode_record_set
from .thin_producer import ThinProducers


class ProxyWriter(ClosesAtExit):
    """Appends to one stream. Made by ``ProxyNamespace.open_writer``; ``async with`` closes it.

    Writers of one stream in a process share a producer and its limit of outstanding bytes. If the
    producer fails (deadline passed, stream ended), all of its writers have failed.
    """

    def __init__(
        self,
        producers: ThinProducers,
        *,
        namespace: str,
        stream: str,
        policy: StreamPolicy,
        end_stream: Callable[[], Awaitable[None]],
    ) -> None:
        self.stream = stream
        self.last_txid = 0
        """The last txid that this writer passed explicitly; 0 if none."""
        self._key = (namespace, stream)
        self._policy = policy
        self._record_bytes_max = policy.record_bytes_max
        self._end_stream = end_stream
        self._refusal: RhumblineError | None = None
        self._producers = producers
        self._producer = producers.join(self._key, policy)
        self._shares = True
        self._is_settled = False  # closed, and nothing is outstanding

    # --- appending ------------------------------------------------------------------------------

    def append(
        self,
        payload: bytes,
        txid: int | None = None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        event_time: int | None = None,
        expected: Dlsn | None = None,
    ) -> Append:
        """Append a record and return immediately; await the result for its position.

        Takes and raises what the core writer does; the proxy assigns txids to records without
        one. A transient failure is retried until the deadline, and the record is stored at most
        once. With ``expected`` the record is sent once all earlier ones are settled; then
        AppendOutcomeUnknownError means that the end has moved, perhaps because of this record.
        """
        if expected is not None:
            return self.append_many(
                [payload],
                None if txid is None else [txid],
                keys=[key],
                headers=[headers],
                event_times=[event_time],
                expected=expected,
            ).first
        if key is not None or headers is not None or event_time is not None:
            return self._append(payload, txid, Attributes(key, headers, event_time))
        if txid is None and payload.__class__ is bytes and self._refusal is None:
            batch = self._producer.open
            size = len(payload)
            room = batch.room - size - RECORD_OVERHEAD_BYTES
            if room >= 0 and size <= self._record_bytes_max:
                batch.room = room
                ticket = Append(batch, len(batch.payloads))
                batch.payloads.append(payload)
                return ticket
        return self._append(payload, txid, None)

    def _append(self, payload: bytes, txid: int | None, attributes: Attributes | None) -> Append:
        payload = self._checked(payload)
        self._check_open()
        batch = self._add(payload, txid, attributes)
        return Append(batch, len(batch.payloads) - 1)

    def append_many(
        self,
        payloads: Sequence[bytes],
        txids: Sequence[int] | None = None,
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        event_times: Sequence[int | None] | None = None,
        atomic: bool = False,
        expected: Dlsn | None = None,
    ) -> AppendMany:
        """Append records in order. All or none are accepted; they may end up in several sets.

        With ``atomic`` or ``expected`` they are one set, as in the core writer.
        """
        records = check_records(
            payloads,
            self._record_bytes_max,
            keys=keys,
            headers=headers,
            event_times=event_times,
        )
        if txids is not None:
            check_txids(self.stream, txids, len(records.payloads), self.last_txid)
        if atomic or expected is not None:
            check_atomic(records.size)
        self._check_open()
        if expected is not None:
            return self._append_if(records, txids, expected)
        if txids is not None:
            self.last_txid = txids[-1]
            self._stop_sharing()
        if atomic or records.size <= self._policy.flush.bytes_max:
            return AppendMany([self._add_together(records, txids)])
        return AppendMany(self._add_in_parts(records, txids))

    def _add_in_parts(
        self, records: CheckedRecords, txids: Sequence[int] | None
    ) -> list[tuple[Batch, int, int]]:
        """Add records to as many batches as they need."""
        room = self._producer.record_room(has_txids=txids is not None)
        spans = []
        for first, part in split_records(records, self._policy.flush.bytes_max, room):
            given = None if txids is None else txids[first : first + len(part.payloads)]
            spans.append(self._add_together(part, given))
        return spans

    def _add_together(
        self, records: CheckedRecords, txids: Sequence[int] | None
    ) -> tuple[Batch, int, int]:
        """Add records to the open batch, or to a new one if they do not fit together."""
        batch = self._producer.batch_for(records.size, None if txids is None else txids[0])
        if batch.txids is not None and txids is not None:
            batch.txids.extend(txids[1:])
            batch.last_txid = txids[-1]
        first = len(batch.payloads)
        for index, one in enumerate(records.attributes or (), start=first):
            batch.add_attributes(index, one)
        batch.payloads.extend(records.payloads)
        return batch, first, len(records.payloads)

    def _append_if(
        self, records: CheckedRecords, txids: Sequence[int] | None, expected: Dlsn
    ) -> AppendMany:
        attributes = records.attributes
        encoded = encode_record_set(
            records.payloads,
            first_txid=TXID_FIRST if txids is None else txids[0],
            last_txid=TXID_FIRST if txids is None else txids[-1],
            txids=txids,
            created_ms=self._producer.wall_ms(),
            codec=self._policy.codec,
            attributes=None if attributes is None else attribute_builder(attributes),
        )
        return self.append_set(encoded, keeps_txids=txids is not None, expected=expected)

    def append_set(
        self, encoded: bytes, *, keeps_txids: bool = False, expected: Dlsn | None = None
    ) -> AppendMany:
        """Append a record set as the core writer does, for one producer that numbers its sets.

        A set that the stream already has is not appended again. Do not mix it with other appends. A
        set with extensions is sent unchanged: if it is traced, its producer made the trace.
        """
        self._check_open()
        if encoded.__class__ is not bytes:
            encoded = as_bytes(encoded)
        if expected is not None:
            check_position(expected)
            batch = self._producer.submit_if(encoded, keeps_txids=keeps_txids, expected=expected)
            return AppendMany([(batch, 0, batch.count)])
        self._stop_sharing()
        batch = self._producer.submit_set(encoded, keeps_txids=keeps_txids)
        return AppendMany([(batch, 0, batch.count)])

    def append_numbered(
        self,
        producer: bytes,
        first_sequence: int,
        payloads: Sequence[bytes],
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        event_times: Sequence[int | None] | None = None,
    ) -> AppendMany:
        """Append records that ``producer`` (16 bytes) numbers from ``first_sequence`` on.

        The call may be repeated after any failure, with any writer of the stream: the records are
        in the stream once (rule STR-16). Raises as ``append_set``.
        """
        check_numbering(producer, first_sequence)
        check_sequence("payloads", payloads)
        if not payloads:
            raise InvalidArgumentError("append_numbered needs at least one record")
        attributes = check_attributes(len(payloads), keys, headers, event_times)
        encoded = encode_record_set(
            [self._checked(payload) for payload in payloads],
            first_txid=TXID_FIRST,
            last_txid=TXID_FIRST,
            created_ms=self._producer.wall_ms(),
            producer=Producer(producer, first_sequence),
            codec=self._policy.codec,
            attributes=None if attributes is None else attribute_builder(attributes),
        )
        return self.append_set(encoded)

    def _add(self, payload: bytes, txid: int | None, attributes: Attributes | None) -> Batch:
        """Add a checked record to the open batch, and return the batch."""
        if txid is not None:
            self.last_txid = check_txid(self.stream, txid, self.last_txid)
            self._stop_sharing()
        size = len(payload) + RECORD_OVERHEAD_BYTES
        if attributes is not None:
            size += attributes.size
        batch = self._producer.batch_for(size, txid)
        if attributes is not None:
            batch.add_attributes(len(batch.payloads), attributes)
        batch.payloads.append(payload)
        return batch

    def _stop_sharing(self) -> None:
        """Switch to a separate producer, ordered after all earlier appends."""
        if self._shares:
            self._shares = False
            shared = self._producer
            shared.seal_batch()
            self._producer = self._producers.own(self._key, self._policy)
            self._producer.sender.follow(shared.sender)
            self._producers.leave(self._key, shared)

    # --- waiting and closing --------------------------------------------------------------------

    def check_room(self) -> None:
        """Raise what ``append`` would raise, TooManyRequestsError for example."""
        self._check_open()

    @property
    def failure(self) -> RhumblineError | None:
        """The reason why the writer accepts no more records; None while it is open."""
        return self._refusal or self._producer.failure

    async def room(self) -> None:
        """Wait until few enough bytes are outstanding for more appends. Raises as ``append``."""
        await self._producer.room()
        self._check_open()

    async def flush(self) -> None:
        """Wait until every record so far is acknowledged. Raises the first failure."""
        await self._producer.flush()

    async def end_stream(self) -> None:
        """End the stream permanently after all records of this writer, and close the writer.

        Records of other producers that are acknowledged after this call began may be before the end
        or refused. Raises the failure of the first record that was not acknowledged.
        """
        await self.close()
        await self._end_stream()

    async def close(self) -> None:
        """Wait until all records are acknowledged or failed. Safe to repeat.

        Raises the failure if there was one. The proxy keeps the stream for other producers.
        """
        self._refuse()
        if self._is_settled:
            return
        try:
            await self._producer.flush()
        except RhumblineError as error:
            failure = self._producer.failure or error
            if not isinstance(failure, ClosedError):
                raise failure.with_traceback(None) from None
        self._is_settled = True

    async def abort(self) -> None:
        """Stop immediately: unacknowledged records have an unknown outcome.

        While other writers share the producer, records that were appended are still sent.
        """
        closed = self._refuse()
        if self._producer.writers == 0:
            self._producer.fail(closed)

    def _refuse(self) -> RhumblineError:
        if self._refusal is None:
            self._refusal = ClosedError(f"the writer of {self.stream} is closed")
            if self._shares:
                self._producers.leave(self._key, self._producer)
        return self._refusal

    async def _close_at_exit(self) -> None:
        await self.close()

    async def _abort_at_exit(self) -> None:
        await self.abort()

    # --- checks ---------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        self._producer.check_room()

    def _checked(self, payload: bytes) -> bytes:
        if payload.__class__ is not bytes:
            payload = as_bytes(payload)
        if len(payload) > self._record_bytes_max:
            raise too_large(len(payload), self._record_bytes_max)
        return payload
