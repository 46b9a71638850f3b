"""The position of a receiver in an audit log, and how a file keeps it."""

import json
from dataclasses import dataclass

from ..core.protocol.errors import ConfigurationError

PRODUCER_BYTES = 16
_HASH_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class AuditPosition:
    """Which lines were received, and which ones may have been received.

    The bytes before ``offset`` were received. Those from ``offset`` to ``end`` were handed to the
    receiver, and it is not known whether it has them; if the two are equal, there are none.
    """

    producer: bytes
    """The random id of 16 bytes under which the lines are numbered."""
    file: str = ""
    """SHA-256 of the first line of the file that is read, in hex; empty before the first file."""
    offset: int = 0
    end: int = 0
    sequence: int = 0
    """Number of the line at ``offset``."""

    def encode(self) -> str:
        """Return the position as JSON."""
        return json.dumps(
            {
                "producer": self.producer.hex(),
                "file": self.file,
                "offset": self.offset,
                "end": self.end,
                "sequence": self.sequence,
            }
        )


def decode_position(text: str) -> AuditPosition:
    """Decode what ``encode`` returned. Raises ConfigurationError."""
    try:
        found = json.loads(text)
        position = AuditPosition(
            bytes.fromhex(found["producer"]),
            str(found["file"]),
            int(found["offset"]),
            int(found["end"]),
            int(found["sequence"]),
        )
    except (ValueError, LookupError, TypeError) as error:
        raise ConfigurationError(f"not a position: {error}") from error
    if (
        len(position.producer) != PRODUCER_BYTES
        or len(position.file) not in (0, _HASH_CHARACTERS)
        or not 0 <= position.offset <= position.end
        or position.sequence < 0
    ):
        raise ConfigurationError(f"not a position: {text!r}")
    return position
