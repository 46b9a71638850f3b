"""Dead letters: records that were delivered too often, in a stream of their own (rule STR-37).

A dead letter is appended, and acknowledged by the bookies, before the record is acknowledged in its
subscription. After a crash in between it is appended again, so a dead-letter stream has every such
record at least once. Its headers tell the copies apart: they name the same position.
"""

import asyncio
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ...protocol.attributes.attribute_values import (
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    NO_HEADERS,
    Headers,
)
from ...protocol.dlsn import Dlsn
from ...protocol.errors import (
    CorruptionError,
    InvalidArgumentError,
    OwnershipLostError,
    UnavailableError,
)
from ..api.log_namespace import LogNamespace
from ..api.log_writer import LogWriter
from ..read.record_batch import Record

PREFIX = "rhumbline-dead-"
"""The beginning of the names of the headers that a dead letter has besides those of its record."""

_REASON_BYTES_MAX = 1_000
_CLOSE_S_MAX = 5.0
_HEADERS_ADDED = 7
_BYTES_ADDED_MAX = 4_000


class DeadLetter(NamedTuple):
    """A record that is moved to a dead-letter stream, and why."""

    stream: str
    """The stream of the record."""
    subscription: str
    """The subscription, or the group, that gave the record up."""
    position: Dlsn
    """The position of the record."""
    deliveries: int
    """The number of its deliveries."""
    reason: str
    """Why its last delivery failed."""
    txid: int
    """The txid of the record."""
    created_ms: int
    """The creation time of the record."""
    payload: bytes
    key: bytes | None = None
    headers: Headers = NO_HEADERS
    """The headers of the record, without those of the dead letter. They are absent if both together
    would exceed the limits of a record."""
    event_time: int | None = None

    @classmethod
    def of(
        cls, stream: str, subscription: str, record: Record, deliveries: int, reason: str
    ) -> "DeadLetter":
        """Return the dead letter of a record."""
        return cls(
            stream,
            subscription,
            record.dlsn,
            deliveries,
            reason.encode()[:_REASON_BYTES_MAX].decode(errors="ignore"),
            record.txid,
            record.created_ms,
            record.payload,
            record.key,
            {name: one for name, one in record.headers.items() if not name.startswith(PREFIX)},
            record.event_time,
        )

    def all_headers(self) -> dict[str, bytes]:
        """Return the headers in the dead-letter stream."""
        added = {
            "stream": self.stream,
            "subscription": self.subscription,
            "position": str(self.position),
            "deliveries": str(self.deliveries),
            "reason": self.reason,
            "txid": str(self.txid),
            "created-ms": str(self.created_ms),
        }
        size = sum(len(name) + len(value) for name, value in self.headers.items())
        fits = (
            len(self.headers) + _HEADERS_ADDED <= HEADERS_MAX
            and size + _BYTES_ADDED_MAX <= HEADERS_BYTES_MAX
        )
        kept = dict(self.headers) if fits else {}
        return kept | {f"{PREFIX}{name}": value.encode() for name, value in added.items()}


def dead_letter_in(record: Record) -> DeadLetter:
    """Return the dead letter in a record of a dead-letter stream.

    Raises CorruptionError if the record is not one.
    """
    headers = record.headers
    try:
        found = {
            name.removeprefix(PREFIX): value.decode()
            for name, value in headers.items()
            if name.startswith(PREFIX)
        }
        return DeadLetter(
            found["stream"],
            found["subscription"],
            Dlsn.parse(found["position"]),
            int(found["deliveries"]),
            found["reason"],
            int(found["txid"]),
            int(found["created-ms"]),
            record.payload,
            record.key,
            {name: one for name, one in headers.items() if not name.startswith(PREFIX)},
            record.event_time,
        )
    except (InvalidArgumentError, KeyError, ValueError) as error:
        raise CorruptionError(f"the record at {record.dlsn} is not a dead letter") from error


class DeadLetterSink(Protocol):
    """Where dead letters go."""

    async def append(self, letter: DeadLetter) -> None:
        """Append a dead letter, and return once it is acknowledged. Raises as a writer does."""
        ...

    async def aclose(self) -> None:
        """Release the resources. Safe to repeat."""
        ...


@dataclass(slots=True)
class StreamDeadLetters:
    """Dead letters in a stream that this process writes.

    Written directly, the stream has one writer at a time, so members that share it take it over
    from each other for each dead letter; a topic with a stream for each partition avoids this.
    Through proxies they share the stream.
    """

    namespace: LogNamespace
    stream: str
    _writer: LogWriter | None = None

    async def append(self, letter: DeadLetter) -> None:
        """Append a dead letter, see ``DeadLetterSink``."""
        if self._writer is None or self._writer.failure is not None:
            await self.aclose()
            self._writer = await self.namespace.open_writer(self.stream)
        try:
            await self._writer.append(
                letter.payload,
                key=letter.key,
                headers=letter.all_headers(),
                event_time=letter.event_time,
            )
        except OwnershipLostError:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Close the writer, see ``DeadLetterSink``. Every dead letter so far is acknowledged."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_S_MAX):
                await writer.close()
        except (OwnershipLostError, UnavailableError, TimeoutError):
            await writer.abort()  # the next writer completes the segment
