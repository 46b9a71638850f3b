"""The interface of a stream's writer, whether it writes to bookies or through a proxy."""

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from ...protocol.attributes.attribute_values import Headers
from ...protocol.dlsn import Dlsn
from ...protocol.errors import RhumblineError
from ..write.batch import Append, AppendMany


class LogWriter(Protocol):
    """Appends to one stream. The end of an ``async with`` block closes it.

    A direct writer is the only one of its stream: opening it fences the one before. Writers through
    proxies share the stream with each other.
    """

    stream: str
    """The name of the stream."""
    last_txid: int
    """The last txid that this writer knows; 0 if none."""

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
        """Append a record without waiting; await the result for its position.

        Parameters and errors are those of ``StreamWriter.append``.
        """
        ...

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
        """Append records in order; all or none are accepted. Raises as ``append``.

        With ``atomic`` all or none are in the stream (rule STR-42).
        """
        ...

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

        The call may be repeated after any failure, with this or any other writer: the records are
        in the stream once (rule STR-16). One producer numbers without gaps, and does not mix these
        appends with others. Raises as ``append``, and DuplicateRecordError, SequenceGapError.
        """
        ...

    def append_set(
        self, encoded: bytes, *, keeps_txids: bool = False, expected: Dlsn | None = None
    ) -> AppendMany:
        """Append a record set that a producer encoded, see ``StreamWriter.append_set``."""
        ...

    def check_room(self) -> None:
        """Raise what ``append`` would raise, TooManyRequestsError for example."""
        ...

    @property
    def failure(self) -> RhumblineError | None:
        """The reason why no more records are accepted; None while the writer is open."""
        ...

    async def room(self) -> None:
        """Wait until more records may be appended after TooManyRequestsError."""
        ...

    async def flush(self) -> None:
        """Wait until every record so far is acknowledged. Raises the first failure."""
        ...

    async def end_stream(self) -> None:
        """End the stream permanently after all records of this writer, and close the writer."""
        ...

    async def close(self) -> None:
        """Wait until all records are acknowledged or failed. Safe to repeat."""
        ...

    async def abort(self) -> None:
        """Stop immediately: unacknowledged records have an unknown outcome."""
        ...

    async def __aenter__(self) -> Self:
        """Return the writer itself."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the writer; an error of closing never hides an error of the block."""
        ...
