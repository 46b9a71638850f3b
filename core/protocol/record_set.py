"""The record set: the columnar block of records that a producer makes and no hop takes apart.

Layout, little endian, so that a decoded set *is* Arrow's layout and needs no loop over records::

    header (96 bytes) | extension area | body (raw, or coded as ``codec`` says)
    raw body: [txid int64[count]] | offset int32[count + 1] | payload bytes

The txid column is left out when all txids are equal (the usual case: one txid a set). Two
checksums: ``raw_crc`` covers the raw body and is the identity of the content (the archive's digest
is made of it); ``header_crc`` covers header and extension. They are apart so that the stream's
owner can stamp txid and position into a set that a remote producer made without touching its body.

An entry holds one or more record sets; slots count through all of them. A set of another kind than
DATA is a control record: it takes one slot and is hidden from applications.

``position`` counts the data records of the segment before this set. Readers check that positions
join without a hole, and compute sequence ids from them. ``producers_entry`` is the entry of the
segment that holds the newest snapshot of its producers, so that the last entry tells the next owner
where to begin to rebuild it.

Encoding is list appends and one join; decoding is buffer views. Everything that does not fit is a
CorruptionError: nothing here trusts its input, except that bytes with a good checksum that only
*claim* a wrong thing (offsets, order of txids) are found when that column is first looked at.
"""

import operator
import struct
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import accumulate
from typing import NamedTuple

import crc32c

from .compression import Codec, compress, decompress
from .errors import CorruptionError, InvalidArgumentError, RecordTooLargeError

MAGIC = b"RhRS"
VERSION = 1

HEADER = struct.Struct("<4sBBBBIIIIqqqqq16sqII")
"""magic, version, kind, codec, flags, count, extension bytes, raw bytes, coded bytes, first txid,
last txid, position, producers entry, created ms, producer, first sequence, raw crc, header crc."""

_STAMPED = struct.Struct("<qqqq")  # first txid, last txid, position, producers entry
_STAMPED_AT = 24
_HEADER_CRC = struct.Struct("<I")
_HEADER_CRC_AT = HEADER.size - _HEADER_CRC.size

_TWO_OFFSETS = struct.Struct("<2i")
_NUMBERING = struct.Struct("<8xI52x16sq")  # count, producer, first sequence

_HAS_TXIDS = 1

TXID_FIRST = 1
TXID_LAST = 2**63 - 2
TXID_END_OF_STREAM = 2**63 - 1
"""The txid of the end-of-stream control record, above every record's."""

RECORD_BYTES_MAX = 1 << 20
ENTRY_BYTES_MAX = 3_670_016
"""3.5 MiB: what a bookie takes as one entry, all record sets of it together."""
RAW_BYTES_MAX = 16 << 20
"""Largest raw body of one set, however well it is compressed."""
EXTENSION_BYTES_MAX = 4096

NO_PRODUCER = bytes(16)
NO_SEQUENCE = -1
NO_SNAPSHOT = -1


class Kind(IntEnum):
    """What a record set is. All but DATA are control records: one slot, never shown."""

    DATA = 0
    FLUSH = 1
    """Only there so that the entries before it become visible."""
    KEEPALIVE = 2
    """Says that the writer lives."""
    END_OF_STREAM = 3
    """No record follows, in this or any later segment."""
    PRODUCERS = 4
    """Snapshot of the last sequence and position of each producer, for de-duplication."""


_KINDS = frozenset(Kind)
_CODECS = {int(codec): codec for codec in Codec}


class Producer(NamedTuple):
    """Who made the records, for de-duplication: 16 bytes and the sequence of the first record.

    The records of a set have consecutive sequences, from 0 up in a producer's life.
    """

    identity: bytes
    first_sequence: int


_NOBODY = Producer(NO_PRODUCER, NO_SEQUENCE)


class RecordSet:
    """A checked, decoded record set. Columns are looked at lazily. Immutable by convention."""

    __slots__ = (
        "_has_txids",
        "_offsets_at",
        "_payload_at",
        "count",
        "created_ms",
        "extension",
        "first_sequence",
        "first_txid",
        "kind",
        "last_txid",
        "position",
        "producer",
        "producers_entry",
        "raw",
        "raw_crc",
        "slot",
    )

    kind: int
    """A Kind, or a number that this version does not know (a control record then)."""
    count: int
    """Number of records; 1 for a control record."""
    slot: int
    """Slot of the first record within the entry."""
    position: int
    """Data records of the segment before this set."""
    producers_entry: int
    """Entry of this segment with the newest snapshot of producers, or NO_SNAPSHOT."""
    first_txid: int
    last_txid: int
    created_ms: int
    producer: bytes
    """Who made it (16 bytes), or NO_PRODUCER."""
    first_sequence: int
    """The producer's sequence of the first record, or NO_SEQUENCE."""
    extension: bytes
    """See ``decode_extension``."""
    raw: memoryview
    """The raw body: txid column (perhaps), offsets, payloads."""
    raw_crc: int
    """CRC32C of ``raw``: the identity of the content."""
    _has_txids: bool
    _offsets_at: int
    _payload_at: int

    @property
    def is_control(self) -> bool:
        """Whether this is a control record, which applications do not see."""
        return self.kind != Kind.DATA

    def payloads(self) -> list[bytes]:
        """All payloads, as bytes. Raises CorruptionError if the offsets do not fit."""
        sizes = self._sizes()
        body = self.raw[self._payload_at :]
        first = sizes[0]
        if sizes.count(first) == len(sizes):
            layout = f"{first}s" * len(sizes)
        else:
            layout = ("%ds" * len(sizes)) % tuple(sizes)
        # One call makes all objects; several times faster than slicing in a loop.
        return list(struct.Struct(layout).unpack(body))

    def largest_bytes(self) -> int:
        """Size of the largest payload. Raises CorruptionError if the offsets do not fit."""
        return max(self._sizes())

    def txids(self) -> Sequence[int]:
        """The txid of each record, non-decreasing. Raises CorruptionError if they are not."""
        if not self._has_txids:
            return _repeated(self.first_txid, self.count)
        column = struct.unpack_from(f"<{self.count}q", self.raw)
        if (
            column[0] != self.first_txid
            or column[-1] != self.last_txid
            or any(map(operator.gt, column, column[1:]))
        ):
            raise CorruptionError("record set: txids fall, or differ from the header's")
        return column

    def first_at_txid(self, txid: int) -> int:
        """Index of the first record with at least this txid; ``count`` if there is none."""
        return bisect_left(self.txids(), txid)

    def offsets_view(self) -> memoryview:
        """The offset column: int32[count + 1], little endian. Not checked: see ``_sizes``."""
        return self.raw[self._offsets_at : self._payload_at]

    def payload_view(self) -> memoryview:
        """The payload bytes, one after the other."""
        return self.raw[self._payload_at :]

    def txids_view(self) -> memoryview | None:
        """The txid column: int64[count], little endian; None when all are ``first_txid``."""
        return self.raw[: self._offsets_at] if self._has_txids else None

    def _sizes(self) -> list[int]:
        payload_bytes = len(self.raw) - self._payload_at
        whole = (0, payload_bytes)  # of the set of a producer that awaits each record
        if self.count == 1 and _TWO_OFFSETS.unpack_from(self.raw, self._offsets_at) == whole:
            return [payload_bytes]
        offsets = struct.unpack_from(f"<{self.count + 1}i", self.raw, self._offsets_at)
        sizes = list(map(operator.sub, offsets[1:], offsets))
        if offsets[0] != 0 or offsets[-1] != payload_bytes or min(sizes) < 0:
            raise CorruptionError("record set: offsets do not fit its payload")
        return sizes


def _repeated(value: int, count: int) -> Sequence[int]:
    return (value,) * count


# --- encoding -----------------------------------------------------------------------------------


def encode_record_set(
    payloads: Sequence[bytes],
    *,
    first_txid: int,
    last_txid: int,
    txids: Sequence[int] | None = None,
    kind: Kind = Kind.DATA,
    position: int = 0,
    producers_entry: int = NO_SNAPSHOT,
    created_ms: int = 0,
    producer: Producer = _NOBODY,
    codec: Codec = Codec.NONE,
    extension: bytes = b"",
) -> bytes:
    """Makes a record set of ``payloads`` (at least one).

    ``txids`` is needed only when first and last differ, and then has one for each payload. The
    caller has checked their order. Raises RecordTooLargeError when the raw body is above its limit.
    """
    count = len(payloads)
    assert count > 0
    assert len(extension) <= EXTENSION_BYTES_MAX
    parts: list[bytes] = []
    flags = 0
    if first_txid != last_txid:
        assert txids is not None
        assert len(txids) == count
        assert txids[0] == first_txid
        assert txids[-1] == last_txid
        parts.append(struct.pack(f"<{count}q", *txids))
        flags = _HAS_TXIDS
    try:
        parts.append(struct.pack(f"<{count + 1}i", *accumulate(map(len, payloads), initial=0)))
    except struct.error as error:
        raise RecordTooLargeError(f"a record set of more than {RAW_BYTES_MAX} bytes") from error
    parts.extend(payloads)
    raw = b"".join(parts)
    if len(raw) > RAW_BYTES_MAX:
        raise RecordTooLargeError(f"a record set of {len(raw)} bytes, above {RAW_BYTES_MAX}")
    raw_crc = crc32c.crc32c(raw)
    coded = raw
    if codec is not Codec.NONE:
        coded = compress(codec, raw)
        if len(coded) >= len(raw):
            codec, coded = Codec.NONE, raw
    header = HEADER.pack(
        MAGIC, VERSION, kind, codec, flags, count, len(extension), len(raw), len(coded), first_txid,
        last_txid, position, producers_entry, created_ms, *producer, raw_crc, 0,
    )[:_HEADER_CRC_AT]  # fmt: skip
    header_crc = crc32c.crc32c(extension, crc32c.crc32c(header))
    return b"".join((header, _HEADER_CRC.pack(header_crc), extension, coded))


def encode_control(
    kind: Kind,
    *,
    txid: int,
    position: int,
    created_ms: int,
    producers_entry: int = NO_SNAPSHOT,
    data: bytes = b"",
) -> bytes:
    """Makes a control record. ``txid`` is the last one used (the end of stream has its own)."""
    assert kind is not Kind.DATA
    return encode_record_set(
        [data],
        first_txid=txid,
        last_txid=txid,
        kind=kind,
        position=position,
        producers_entry=producers_entry,
        created_ms=created_ms,
    )


def stamped(
    record_set: bytes,
    *,
    position: int,
    producers_entry: int = NO_SNAPSHOT,
    txid: int | None = None,
) -> bytes:
    """The same set at another place and, if given, with ``txid`` for all of its records.

    For the stream's owner. ``record_set`` must have been decoded (checked) before. Raises
    InvalidArgumentError when a txid is given for a set that has a txid column of its own.
    """
    fields = HEADER.unpack_from(record_set)
    flags, extension_bytes, first_txid, last_txid = fields[4], fields[6], fields[9], fields[10]
    if txid is not None:
        if flags & _HAS_TXIDS:
            raise InvalidArgumentError("these records have txids of their own")
        first_txid = last_txid = txid
    changed = bytearray(record_set)
    _STAMPED.pack_into(changed, _STAMPED_AT, first_txid, last_txid, position, producers_entry)
    crc = crc32c.crc32c(bytes(changed[:_HEADER_CRC_AT]))
    crc = crc32c.crc32c(bytes(changed[HEADER.size : HEADER.size + extension_bytes]), crc)
    _HEADER_CRC.pack_into(changed, _HEADER_CRC_AT, crc)
    return bytes(changed)


def numbering(record_set: bytes) -> tuple[int, Producer]:
    """(number of records, who numbers them and from where), from the header alone, unchecked.

    Raises InvalidArgumentError when not even a header is there.
    """
    if len(record_set) < HEADER.size:
        raise InvalidArgumentError(f"{len(record_set)} bytes are no record set")
    count, identity, first_sequence = _NUMBERING.unpack_from(record_set)
    return count, Producer(identity, first_sequence)


def has_extension(record_set: bytes) -> bool:
    """Whether it has an extension area; it must have a whole header."""
    return bool(HEADER.unpack_from(record_set)[6])


def extended(record_set: bytes, extension: bytes) -> bytes:
    """The same set with this extension area; it must have a whole header, and none so far."""
    assert len(extension) <= EXTENSION_BYTES_MAX
    assert not has_extension(record_set)
    fields = HEADER.unpack_from(record_set)
    header = HEADER.pack(*fields[:6], len(extension), *fields[7:])[:_HEADER_CRC_AT]
    crc = _HEADER_CRC.pack(crc32c.crc32c(extension, crc32c.crc32c(header)))
    return b"".join((header, crc, extension, record_set[HEADER.size :]))


# --- decoding -----------------------------------------------------------------------------------


def decode_entry(payload: bytes | memoryview) -> list[RecordSet]:
    """All record sets of an entry's payload, in order, checksums verified.

    They are views of it, and keep it. Raises CorruptionError for anything that is not a whole
    sequence of record sets.
    """
    sets: list[RecordSet] = []
    view = memoryview(payload)
    at = slot = 0
    end = len(payload)
    while at < end or not sets:
        one, at = _decode_at(view, at)
        one.slot = slot
        slot += one.count
        sets.append(one)
    return sets


def _decode_at(view: memoryview, at: int) -> tuple[RecordSet, int]:
    if len(view) - at < HEADER.size:
        raise CorruptionError(f"record set: {len(view) - at} bytes are less than a header")
    (
        magic, version, kind, codec_id, flags, count, extension_bytes, raw_bytes, coded_bytes,
        first_txid, last_txid, position, producers_entry, created_ms, producer, first_sequence,
        raw_crc, header_crc,
    ) = HEADER.unpack_from(view, at)  # fmt: skip
    if magic != MAGIC or version != VERSION:
        raise CorruptionError(f"record set: magic {magic!r}, version {version}: not one of ours")
    extension_at = at + HEADER.size
    body_at = extension_at + extension_bytes
    end = body_at + coded_bytes
    if end > len(view) or extension_bytes > EXTENSION_BYTES_MAX or raw_bytes > RAW_BYTES_MAX:
        raise CorruptionError("record set: its sizes do not fit what is there")
    extension = bytes(view[extension_at:body_at])
    if crc32c.crc32c(extension, crc32c.crc32c(view[at : at + _HEADER_CRC_AT])) != header_crc:
        raise CorruptionError("record set: header checksum")
    codec = _CODECS.get(codec_id)
    if codec is None:
        raise CorruptionError(f"record set: unknown codec {codec_id}")
    raw = view[body_at:end]
    if codec is not Codec.NONE:
        raw = memoryview(decompress(codec, bytes(raw), raw_bytes))
    if len(raw) != raw_bytes or crc32c.crc32c(raw) != raw_crc:
        raise CorruptionError("record set: body checksum")
    has_txids = bool(flags & _HAS_TXIDS)
    offsets_at = 8 * count if has_txids else 0
    payload_at = offsets_at + 4 * (count + 1)
    if (
        count < 1
        or payload_at > raw_bytes
        or flags & ~_HAS_TXIDS
        or position < 0
        or producers_entry < NO_SNAPSHOT
        or not (TXID_FIRST <= first_txid <= last_txid if kind == Kind.DATA else first_txid >= 0)
        or (first_txid != last_txid) is not has_txids
        or (kind != Kind.DATA and count != 1)
    ):
        raise CorruptionError("record set: its header contradicts itself")
    one = RecordSet()
    one.kind = kind
    one.count = count
    one.first_txid = first_txid
    one.last_txid = last_txid
    one.position = position
    one.producers_entry = producers_entry
    one.created_ms = created_ms
    one.producer = producer
    one.first_sequence = first_sequence
    one.extension = extension
    one.raw_crc = raw_crc
    one.raw = raw
    one._has_txids = has_txids
    one._offsets_at = offsets_at
    one._payload_at = payload_at
    return one, end


# --- extension area -----------------------------------------------------------------------------

_TLV = struct.Struct("<HH")


def encode_extension(values: Mapping[int, bytes]) -> bytes:
    """Tag-length-value form of small extras, e.g. a trace context; tags rise.

    Raises InvalidArgumentError above EXTENSION_BYTES_MAX in all.
    """
    if sum(map(len, values.values())) + _TLV.size * len(values) > EXTENSION_BYTES_MAX:
        raise InvalidArgumentError(f"extensions of more than {EXTENSION_BYTES_MAX} bytes in all")
    return b"".join(_TLV.pack(tag, len(data)) + data for tag, data in sorted(values.items()))


def decode_extension(area: bytes) -> dict[int, bytes]:
    """Reads what ``encode_extension`` made; unknown tags are kept. Raises CorruptionError."""
    values: dict[int, bytes] = {}
    at = 0
    while at < len(area):
        if at + _TLV.size > len(area):
            raise CorruptionError("record set: extension area is cut off")
        tag, length = _TLV.unpack_from(area, at)
        at += _TLV.size
        if at + length > len(area) or tag in values:
            raise CorruptionError("record set: bad extension area")
        values[tag] = area[at : at + length]
        at += length
    return values
