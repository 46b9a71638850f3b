"""The trace context of a record set: a W3C ``traceparent`` in the set's extension area.

It travels with the set through proxies, into the log and to every reader. Nothing depends on it: a
malformed value counts as absent.
"""

import re

from ..protocol.errors import CorruptionError
from ..protocol.record_set import HEADER, decode_extension, encode_extension

TRACEPARENT = 1
"""Tag of the extension that holds the ``traceparent``, as ASCII."""

_FORM = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_EXTENSION_BYTES = 6  # index of that field in the header


def trace_extension(traceparent: str) -> bytes:
    """Return the extension area of a traced set."""
    return encode_extension({TRACEPARENT: traceparent.encode("ascii")})


def is_traceparent(text: bytes) -> bool:
    """True for a ``traceparent`` of version 00."""
    return _FORM.fullmatch(text) is not None


def traceparent_in(extension: bytes) -> str | None:
    """Return the ``traceparent`` of an extension area; None if there is none."""
    try:
        text = decode_extension(extension).get(TRACEPARENT, b"")
    except CorruptionError:
        return None
    return text.decode("ascii") if is_traceparent(text) else None


def traceparent_of_set(record_set: bytes) -> str | None:
    """Return the ``traceparent`` of an encoded, unchecked set; None if there is none."""
    size = HEADER.unpack_from(record_set)[_EXTENSION_BYTES]
    return traceparent_in(record_set[HEADER.size : HEADER.size + size]) if size else None
