"""DLSN: the position of a record in a stream, in total order (rule STR-13)."""

import re
import struct
from typing import NamedTuple, Self

from .errors import InvalidArgumentError

_BYTES = struct.Struct(">qqq")
_TEXT = re.compile(r"(\d{1,19}):(\d{1,19}):(\d{1,19})")
_MAX = 2**63 - 1


class Dlsn(NamedTuple):
    """The position of a record: (log segment number, entry id, slot), compared left to right.

    It is written as a string, ``"3:1041:7"``, or as 24 big-endian bytes, which sort like positions.
    Both forms round-trip.
    """

    lssn: int
    entry_id: int
    slot: int

    def __str__(self) -> str:
        return f"{self.lssn}:{self.entry_id}:{self.slot}"

    def to_bytes(self) -> bytes:
        """Return the 24-byte form, whose byte order is the order of positions."""
        return _BYTES.pack(*self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode the 24-byte form. Raises InvalidArgumentError for anything else."""
        if len(data) != _BYTES.size:
            raise InvalidArgumentError(f"a DLSN has {_BYTES.size} bytes, not {len(data)}")
        position = cls(*_BYTES.unpack(data))
        if min(position) < 0:
            raise InvalidArgumentError(f"a DLSN with a negative part: {position}")
        return position

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``lssn:entry:slot``. Raises InvalidArgumentError for anything else."""
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise InvalidArgumentError(
                f"not a DLSN: {text[:80]!r}; write lssn:entry:slot, e.g. 1:0:0"
            )
        parts = [int(part) for part in match.groups()]
        if max(parts) > _MAX:
            raise InvalidArgumentError(f"a part of the DLSN {text!r} is above 2^63-1")
        return cls(*parts)


FIRST_DLSN = Dlsn(1, 0, 0)
"""The first possible position of every stream."""
