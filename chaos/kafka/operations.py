"""The operations of the workload, as clients record them: one JSON object per line.

A key is a log of its own, here a stream. An offset is the position of a record: (segment, entry,
slot). Offsets grow, with gaps between them. Times are those of the machine's monotonic clock, which
all clients share. A poll of several keys is recorded as one operation for each of them.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

Offset = tuple[int, int, int]


class SendOutcome(StrEnum):
    """The outcome of a send."""

    OK = "ok"
    FAILED = "failed"  # certainly not
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A value was sent to a key. ``offset`` is known if the outcome is OK."""

    client: int
    called: float
    returned: float
    key: str
    value: int
    outcome: SendOutcome
    offset: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPoll:
    """A client read the messages of a key from ``start`` on.

    ``assignment`` counts how often the client began anew, at the committed offsets. Polls of one
    assignment continue each other. A final poll reads the whole log, when nothing is sent any more.
    """

    client: int
    called: float
    returned: float
    key: str
    assignment: int
    start: Offset
    messages: tuple[tuple[Offset, int], ...]
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffset:
    """A client committed that everything below ``offset`` was processed."""

    client: int
    called: float
    returned: float
    key: str
    offset: Offset
    is_confirmed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCommitted:
    """A client read the committed offset of a key."""

    client: int
    called: float
    returned: float
    key: str
    offset: Offset


Operation = Send | KeyPoll | CommitOffset | ListCommitted

_KINDS: dict[str, type[Operation]] = {
    "send": Send,
    "poll": KeyPoll,
    "commit": CommitOffset,
    "list": ListCommitted,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode(operation: Operation) -> str:
    """Return the line of an operation, without a newline."""
    return json.dumps({"kind": _NAMES[type(operation)], **asdict(operation)})


def decode(lines: Iterable[str]) -> list[Operation]:
    """Return the operations of a file."""
    return [_decode(json.loads(line)) for line in lines]


def _decode(fields: dict[str, object]) -> Operation:
    kind = _KINDS[str(fields.pop("kind"))]
    return kind(**{name: _value(name, value) for name, value in fields.items()})  # type: ignore[arg-type]


def _value(name: str, value: object) -> object:
    if name == "outcome":
        return SendOutcome(str(value))
    if name == "messages":
        assert isinstance(value, list)
        return tuple((tuple(offset), message) for offset, message in value)
    return tuple(value) if isinstance(value, list) else value
