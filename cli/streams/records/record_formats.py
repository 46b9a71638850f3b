"""The formats in which ``stream read`` and ``stream tail`` print records.

They take parts of batches: lines and length-prefixed records need no object for each record.
"""

import json
from collections.abc import Callable
from functools import partial
from itertools import chain

from ....core.log.read.record_batch import Record
from .record_documents import as_document, attributes_document
from .record_files import LENGTH
from .record_parts import RecordPart

Format = Callable[[RecordPart], bytes]
"""Returns the bytes that are printed for a part of a batch."""


def record_format(name: str) -> Format:
    """Return the function for a format, which is one of ``FORMATS``."""
    return _FORMATS[name]


def _as_lines(part: RecordPart) -> bytes:
    return b"\n".join([*part.payloads(), b""])


def _as_prefixed(part: RecordPart) -> bytes:
    payloads = part.payloads()
    lengths = map(LENGTH.pack, map(len, payloads))
    return b"".join(chain.from_iterable(zip(lengths, payloads, strict=True)))


def _by_record(line: Callable[[Record], bytes], part: RecordPart) -> bytes:
    return b"".join(map(line, part.records()))


def _verbose(record: Record) -> bytes:
    shown = b"%s\t%d\t%s" % (str(record.dlsn).encode(), record.txid, record.payload)
    attributes = attributes_document(record)
    if attributes:
        shown += b"\t" + json.dumps(attributes, ensure_ascii=False).encode()
    return shown + b"\n"


def _as_json(record: Record) -> bytes:
    return json.dumps(as_document(record)).encode() + b"\n"


_FORMATS: dict[str, Format] = {
    "lines": _as_lines,
    "verbose": partial(_by_record, _verbose),
    "json": partial(_by_record, _as_json),
    "length-prefixed": _as_prefixed,
}
FORMATS = tuple(_FORMATS)
