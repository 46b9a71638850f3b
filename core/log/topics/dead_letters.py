"""Dead letters: records that were delivered too often, in a stream of their own (rule STR-37).

A dead letter is appended, and acknowledged by the bookies, before the record is acknowledged in its
subscription. After a crash in between it is appended again, so a dead-letter stream has every such
record at least once. Its metadata tells the copies apart: they name the same position.
"""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ...protocol.dlsn import Dlsn
from ...protocol.errors import CorruptionError, InvalidArgumentError, OwnershipLostError
from ..api.log_namespace import LogNamespace
from ..api.log_writer import LogWriter
from ..read.record_batch import Record

_REASON_CHARACTERS_MAX = 500
_FORMAT = 1


class DeadLetter(NamedTuple):
    """A record that is moved to a dead-letter stream, and why."""

    stream: str
    """The stream of the record."""
    subscription: str
    """The subscription, or the group, that gave the record up."""
    position: Dlsn
    """The position of the record."""
    deliveries: int
    """How often it was delivered."""
    reason: str
    """Why its last delivery failed."""
    txid: int
    created_ms: int
    payload: bytes

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
            reason[:_REASON_CHARACTERS_MAX],
            record.txid,
            record.created_ms,
            record.payload,
        )


def encode_dead_letter(letter: DeadLetter) -> bytes:
    """Return the payload in a dead-letter stream: a line of JSON, then the original payload."""
    fields = {
        "v": _FORMAT,
        "stream": letter.stream,
        "subscription": letter.subscription,
        "position": str(letter.position),
        "deliveries": letter.deliveries,
        "reason": letter.reason,
        "txid": letter.txid,
        "created_ms": letter.created_ms,
    }
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n" + letter.payload


def decode_dead_letter(data: bytes) -> DeadLetter:
    """Return what ``encode_dead_letter`` was given. Raises CorruptionError for anything else."""
    head, _, payload = data.partition(b"\n")
    try:
        fields: dict[str, Any] = json.loads(head)
        if fields["v"] != _FORMAT:
            raise CorruptionError(f"a dead letter of format {fields['v']}")
        return DeadLetter(
            str(fields["stream"]),
            str(fields["subscription"]),
            Dlsn.parse(fields["position"]),
            int(fields["deliveries"]),
            str(fields["reason"]),
            int(fields["txid"]),
            int(fields["created_ms"]),
            payload,
        )
    except (InvalidArgumentError, KeyError, TypeError, ValueError) as error:
        raise CorruptionError(f"not a dead letter: {head[:60]!r}") from error


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
            await self._writer.append(encode_dead_letter(letter))
        except OwnershipLostError:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Close the writer, see ``DeadLetterSink``."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.abort() if writer.failure is not None else await writer.close()
