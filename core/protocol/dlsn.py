"""DLSN: the position of a record in a stream, in total order (rules STR-13 and STR-32)."""

import re
import struct
from typing import NamedTuple, Self

from .errors import InvalidArgumentError, InvalidPositionError

_BYTES = struct.Struct(">qqq")
_TEXT = re.compile(r"(\d{1,19}):(\d{1,19}):(\d{1,19})(?:@([\w.-]{1,12}))?", re.ASCII)
_STREAM_ID = re.compile(r"[\w.-]{0,12}", re.ASCII)
_MAX = 2**63 - 1

STREAM_ID_CHARACTERS = 12
"""Length of the part of a stream's identity that positions carry: 48 random bits as hex digits."""


class _Numbers(NamedTuple):
    lssn: int
    entry_id: int
    slot: int


class Dlsn(_Numbers):
    """The position of a record: (log segment number, entry id, slot), compared left to right.

    It is written as a string, ``"3:1041:7@9f86d081884c"``, or as bytes, which sort like positions.
    Both forms round-trip. The part after the ``@`` is the ``stream_id``. Positions that come from a
    stream have it, so that they are refused where another stream has the name now. It takes no part
    in comparisons.
    """

    stream_id: str = ""
    """The first characters of the identity of the stream; "" if it is not known."""

    def __str__(self) -> str:
        text = f"{self.lssn}:{self.entry_id}:{self.slot}"
        return f"{text}@{self.stream_id}" if self.stream_id else text

    def in_stream(self, stream_id: str) -> "Dlsn":
        """Return the same position in the stream of this id; "": in no particular stream."""
        return dlsn_in(stream_id, *self)

    def check_stream(self, stream: str, stream_id: str) -> None:
        """Raise InvalidPositionError if this is a position of another stream (rule STR-32).

        ``stream_id`` is the id of the stream that is named ``stream`` now.
        """
        if self.stream_id and stream_id and self.stream_id != stream_id:
            raise InvalidPositionError(
                f"position {self} is of another stream than {stream}, whose id is {stream_id}: "
                "perhaps the stream was deleted and created again"
            )

    def to_bytes(self) -> bytes:
        """Return the bytes of the position, whose order is the order of positions.

        They are 24 bytes, followed by the stream id if it is known.
        """
        return _BYTES.pack(*self) + self.stream_id.encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode what ``to_bytes`` returned. Raises InvalidArgumentError for anything else."""
        if not isinstance(data, bytes):
            raise InvalidArgumentError(f"not an encoded DLSN: {data!r:.80}")
        if not _BYTES.size <= len(data) <= _BYTES.size + STREAM_ID_CHARACTERS:
            raise InvalidArgumentError(
                f"a DLSN has {_BYTES.size} to {_BYTES.size + STREAM_ID_CHARACTERS} bytes, "
                f"not {len(data)}"
            )
        position = cls(*_BYTES.unpack_from(data))
        stream_id = data[_BYTES.size :].decode("ascii", "replace")
        if min(position) < 0:
            raise InvalidArgumentError(f"DLSN with a negative part: {position}")
        if not _STREAM_ID.fullmatch(stream_id):
            raise InvalidArgumentError(f"a DLSN with the stream id {stream_id!r}")
        if stream_id:
            position.stream_id = stream_id
        return position

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``lssn:entry:slot`` or ``lssn:entry:slot@stream-id``.

        Raises InvalidArgumentError for anything else.
        """
        if not isinstance(text, str):
            raise InvalidArgumentError(f"not a DLSN: {text!r:.80}")
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise InvalidArgumentError(
                f"not a DLSN: {text[:80]!r}; write lssn:entry:slot, e.g. 1:0:0, or what was printed"
            )
        *numbers, stream_id = match.groups()
        parts = [int(part) for part in numbers]
        if max(parts) > _MAX:
            raise InvalidArgumentError(f"a part of the DLSN {text!r} is above 2^63-1")
        position = cls(*parts)
        if stream_id:
            position.stream_id = stream_id
        return position


def dlsn_in(stream_id: str, lssn: int, entry_id: int, slot: int) -> Dlsn:
    """Return the position in the stream of this id."""
    position = Dlsn(lssn, entry_id, slot)
    if stream_id:
        position.stream_id = stream_id
    return position


def check_position(position: object) -> Dlsn:
    """Return ``position`` if it is one.

    Raises InvalidArgumentError if it is of another type, and InvalidPositionError if a part of it
    is not a number from 0 on.
    """
    if isinstance(position, str):
        raise InvalidArgumentError(
            f"position {position[:80]!r} is text: read it with Dlsn.parse({position[:80]!r})"
        )
    if not isinstance(position, Dlsn):
        raise InvalidArgumentError(f"position {position!r:.80} is not a Dlsn")
    if not all(type(part) is int and 0 <= part <= _MAX for part in position):
        raise InvalidPositionError(
            f"position {position} must consist of int values from 0 to 2^63-1"
        )
    return position


FIRST_DLSN = Dlsn(1, 0, 0)
"""The first possible position of every stream."""
