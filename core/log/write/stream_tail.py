"""The tail of a stream: the position after its last record, as its writer knows it (rule STR-41).

A conditional append needs the tail. It follows from what this session sent. Before the session has
sent a record, it is what earlier writers left; ``tail_lookup`` reads that once it is needed.
"""

from ...protocol.dlsn import Dlsn
from ...protocol.errors import EndMismatchError
from .batch import Batch


class StreamTail:
    """The tail of a stream in one writer session."""

    __slots__ = ("_found", "_sent", "_settled", "_stream")

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._found: Dlsn | None = None  # what earlier writers left
        self._sent: Batch | None = None  # the newest data of this session
        self._settled: Batch | None = None  # the newest data of this session in the stream

    def on_found(self, tail: Dlsn) -> None:
        """Note the tail that earlier writers left."""
        self._found = tail

    def on_sent(self, batch: Batch) -> None:
        """Note that a batch of records was sent."""
        self._sent = batch

    def on_settled(self, batch: Batch) -> None:
        """Note that a batch of records is in the stream."""
        self._settled = batch

    def on_resolved(self) -> None:
        """Note that every batch that was sent is either in the stream or will be sent again."""
        self._sent = self._settled

    @property
    def is_known(self) -> bool:
        """True if the tail is known."""
        return self._sent is not None or self._found is not None

    def is_at(self, expected: Dlsn, next_entry: Dlsn) -> bool:
        """True if all records are below ``expected``, and ``next_entry`` is not below it.

        Control records may lie between the last record and the next entry, so more than one
        position is the end of the stream.
        """
        tail = self._found if self._sent is None else _end_of(self._sent)
        return tail is not None and tail <= expected <= next_entry

    @property
    def newest(self) -> Batch | None:
        """The newest records that this session sent, with which conditional appends are compared.

        None: it has sent none.
        """
        return self._sent

    def mismatch(
        self, expected: Dlsn | None, stream_id: str, newest: Batch | None
    ) -> EndMismatchError | None:
        """Return the error of an append that was refused when the newest records were ``newest``.

        They must be settled. None: they are not known to be in the stream, so its end is not known.
        """
        if newest is not None and newest.failure is not None:
            return None
        end = self._found if self._settled is None else _end_of(self._settled)
        if end is None:
            return None
        end = end.in_stream(stream_id)
        return EndMismatchError(f"stream {self._stream} ends at {end}, not at {expected}", end)


def _end_of(batch: Batch) -> Dlsn:
    return Dlsn(batch.lssn, batch.entry_id, batch.count)
