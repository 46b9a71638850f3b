"""The trace of a record set: W3C ``traceparent`` text, carried in the set's extension area.

So it goes wherever the set goes: through proxies, into the log, to every reader. It says nothing
that anybody relies on; what is not well-formed counts as absent.
"""

import re

from .errors import CorruptionError
from .record_set import HEADER, decode_extension, encode_extension

TRACEPARENT = 1
"""Tag of the extension that holds it, as ASCII."""

_FORM = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_EXTENSION_BYTES = 6  # that field of the header


def trace_extension(traceparent: str) -> bytes:
    """The extension area of a set that is traced."""
    return encode_extension({TRACEPARENT: traceparent.encode("ascii")})


def is_traceparent(text: bytes) -> bool:
    """Whether it is a ``traceparent`` of version 00."""
    return _FORM.fullmatch(text) is not None


def traceparent_in(extension: bytes) -> str | None:
    """The trace that an extension area names; None if there is none."""
    try:
        text = decode_extension(extension).get(TRACEPARENT, b"")
    except CorruptionError:
        return None
    return text.decode("ascii") if is_traceparent(text) else None


def traceparent_of_set(record_set: bytes) -> str | None:
    """The same of an encoded set, unchecked, looking at no more than its header if it has none."""
    size = HEADER.unpack_from(record_set)[_EXTENSION_BYTES]
    return traceparent_in(record_set[HEADER.size : HEADER.size + size]) if size else None
