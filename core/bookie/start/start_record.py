"""The record of a bookie's starts in the metadata store, which reveals older copies of its storage.

Each start generates a token and puts it into the identity file and then, by compare-and-set, into
this record, before the bookie serves anything (rule BKE-25). A directory whose token is not the
recorded one lacks what a later start has acknowledged.
"""

import json
from dataclasses import asdict, dataclass
from enum import Enum, auto

from ...protocol.errors import CorruptionError, ForeignDataError
from ..identity import Identity

_VERSION = 1


@dataclass(frozen=True, slots=True)
class StartRecord:
    """The last start of a bookie, as the metadata store knows it."""

    start: int
    """Number of the start; the first one is 1."""
    token: str
    """16 hexadecimal digits, drawn for this start."""
    end: int
    """Position in the write log up to which it was durable when the record was written."""
    limbo: str
    """Why the bookie is in limbo; empty if it is not."""
    marker: str = ""
    """Identity of the file of the end marker (log/end_marker.py); empty if it is unknown."""
    is_final: bool = False
    """True if the bookie stopped in an orderly way, so that nothing was acknowledged after."""


class Freshness(Enum):
    """The result of comparing a storage directory with the record of its starts."""

    CURRENT = auto()
    OLDER_COPY = auto()
    """Another start came after the last one of this directory."""
    NEWER_THAN_STORE = auto()
    """The metadata store does not know the last start of this directory."""


def compare(identity: Identity, record: StartRecord | None) -> Freshness:
    """Return whether the directory with this identity holds what the last start left.

    The token of an interrupted start may be in the directory only. It served nothing, so the token
    before it is as good.
    """
    if record is None:
        is_claimed = identity.previous_token != ""
        return Freshness.NEWER_THAN_STORE if is_claimed else Freshness.CURRENT
    if record.token in (identity.token, identity.previous_token):
        return Freshness.CURRENT
    is_newer = identity.start > record.start
    return Freshness.NEWER_THAN_STORE if is_newer else Freshness.OLDER_COPY


def encode(record: StartRecord) -> bytes:
    """Return the value of the metadata node: one line of JSON."""
    return json.dumps({"v": _VERSION, **asdict(record)}, separators=(",", ":")).encode()


def decode(data: bytes) -> StartRecord:
    """Return the record in a node's value.

    Raises ForeignDataError for a later version, CorruptionError for anything else.
    """
    try:
        fields = json.loads(data)
        version = fields.pop("v")
        if version != _VERSION:
            error = ForeignDataError if version > _VERSION else CorruptionError
            raise error(f"a record of starts has version {version}; this program reads {_VERSION}")
        record = StartRecord(**fields)
        types = (int, str, int, str, str, bool)
        is_valid = all(
            type(value) is kind for value, kind in zip(fields.values(), types, strict=True)
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptionError(f"damaged record of starts: {data[:80]!r}") from error
    if not is_valid or list(fields) != list(asdict(record)) or not record.token:
        raise CorruptionError(f"damaged record of starts: {data[:80]!r}")
    return record
