"""The record set: a columnar block of records, built by a producer and kept whole on every hop.

The layout is little-endian and equals Arrow's, so a decoded set needs no loop over records::

    header (96 bytes) | extension area | body (raw, or coded as ``codec`` says)
    raw body: [txid int64[count]] | [attributes] | offset int32[count + 1] | payload bytes

The txid column is omitted if all txids are equal, which is the usual case. The columns of keys,
headers and event times are there only if a record has one, and a set without them has no byte that
concerns them (rule STR-40, ``attributes/attribute_columns.py``). There are two checksums.
``raw_crc`` covers the raw body and identifies the content (the archive's digest is computed from
it). ``header_crc`` covers header and extension. They are separate so that the stream's owner can
stamp txid and position into a set from a remote producer without touching its body (rule STR-12).

An entry holds one or more record sets, and slots count through all of them. A set whose kind is not
DATA is a control record: it takes one slot and is hidden from applications.

``position`` is the number of data records in the segment before this set. Readers check that
positions leave no gap, and compute sequence ids from them. ``producers_entry`` is the entry that
holds the segment's newest snapshot of the deduplication table. The next owner reads it in the last
entry and rebuilds the table from there.

Encoding is list appends and one join; decoding is buffer views. No input is trusted: whatever does
not fit is a CorruptionError. Errors in the content of a column with a good checksum (offsets, order
of txids) are found when that column is first used.

The columns of an archive have the same layout, so a record set can also be a view of such columns.
It is encoded only if its bytes are needed.
"""

import operator
import struct
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import accumulate
from typing import NamedTuple

import crc32c

from .attributes.attribute_columns import (
    AttributeBuilder,
    AttributeColumns,
    Column,
    columns_in,
    end_of,
)
from .compression import Codec, compress, decompress
from .errors import CorruptionError, InvalidArgumentError, RecordTooLargeError

MAGIC = b"RhRS"
VERSION = 1

HEADER = struct.Struct("<4sBBBBIIIIqqqqq16sqII")
"""magic, version, kind, codec, flags, count, extension bytes, raw bytes, coded bytes, first txid,
last txid, position, producers entry, created ms, producer, first sequence, raw crc, header crc."""

# First txid, last txid, position, producers entry, creation time.
_STAMPED = struct.Struct("<qqqqq")
_STAMPED_AT = 24
_BEFORE_STAMP = struct.Struct("<7xB4xI8xqq16xq")
"""Flags, extension bytes, first txid, last txid, creation time."""
_STAMP_END = _STAMPED_AT + _STAMPED.size
_INT64 = struct.Struct("<q")
_CREATED_AT = 56
_HEADER_CRC = struct.Struct("<I")
_HEADER_CRC_AT = HEADER.size - _HEADER_CRC.size

_OFFSET = struct.Struct("<i")
_TWO_OFFSETS = struct.Struct("<2i")
_NUMBERING = struct.Struct("<8xI52x16sq")  # count, producer, first sequence

_HAS_TXIDS = 1
_HAS_REQUIRED = 2
"""The extension area has required tags; each stands for a column of attributes."""
_FLAGS = _HAS_TXIDS | _HAS_REQUIRED

TXID_FIRST = 1
TXID_LAST = 2**63 - 2
TXID_END_OF_STREAM = 2**63 - 1
"""The txid of the end-of-stream control record, above every record's."""

RECORD_BYTES_MAX = 1 << 20
ENTRY_BYTES_MAX = 3_670_016
"""3.5 MiB: the largest entry that a bookie accepts, all its record sets together."""
RAW_BYTES_MAX = 16 << 20
"""Largest raw body of one set, before compression."""
EXTENSION_BYTES_MAX = 4096

NO_PRODUCER = bytes(16)
NO_SEQUENCE = -1
NO_SNAPSHOT = -1


class Kind(IntEnum):
    """The kind of a record set. All but DATA are hidden; all but DATA and ERASED take one slot."""

    DATA = 0
    FLUSH = 1
    """Makes the entries before it visible to readers."""
    KEEPALIVE = 2
    """Shows that the writer is alive."""
    END_OF_STREAM = 3
    """Seals the stream: no record follows, in this or any later segment."""
    PRODUCERS = 4
    """Snapshot of the deduplication table: last sequence and position of each producer."""
    ERASED = 5
    """Stands for records that were erased from an archive: it has their slots and positions, and
    nothing of their content (rule ARC-66). Only readers of archives make such sets."""


_NOT_COMPUTED = -1
_FEW_PARTS = 8
"""Maximum number of parts of a record set that are not joined before their checksum is computed."""
_COUNTED = (Kind.DATA, Kind.ERASED)
_KINDS = frozenset(Kind)
_CODECS = {int(codec): codec for codec in Codec}


class Producer(NamedTuple):
    """The producer of a set, for deduplication: 16 bytes and the sequence of the first record.

    The records of a set have consecutive sequences; a producer's first record has sequence 0.
    """

    identity: bytes
    first_sequence: int


_ANONYMOUS = Producer(NO_PRODUCER, NO_SEQUENCE)


class RecordSet:
    """A checked record set. Columns are decoded lazily. Immutable by convention."""

    __slots__ = (
        "_attributes",
        "_first_offset",
        "_offsets",
        "_offsets_at",
        "_payloads",
        "_payloads_at",
        "_raw_crc",
        "_txids",
        "attributes",
        "count",
        "created_ms",
        "extension",
        "first_sequence",
        "first_txid",
        "kind",
        "last_txid",
        "payload_bytes",
        "position",
        "producer",
        "producers_entry",
        "slot",
    )

    kind: int
    """A Kind, or a number unknown to this version, which is then a control record."""
    count: int
    """Number of records, also of erased ones; 1 for a control record."""
    slot: int
    """Slot of the first record within the entry."""
    position: int
    """Number of data records in the segment before this set."""
    producers_entry: int
    """Entry of this segment with the newest producer snapshot, or NO_SNAPSHOT."""
    first_txid: int
    last_txid: int
    created_ms: int
    producer: bytes
    """Identity of the producer (16 bytes), or NO_PRODUCER."""
    first_sequence: int
    """The producer's sequence of the first record, or NO_SEQUENCE."""
    extension: bytes
    """The encoded extension area; see ``decode_extension``."""
    attributes: AttributeColumns | None
    """Keys, headers and event times; None if no record has any."""
    payload_bytes: int
    """Size of all payloads together."""
    _txids: memoryview | None
    """Begins with the txid column."""
    _attributes: memoryview | None
    _offsets: memoryview
    """Contains the offset column, from ``_offsets_at`` on."""
    _offsets_at: int
    _payloads: memoryview
    """Contains the payloads, from ``_payloads_at`` on."""
    _payloads_at: int
    _first_offset: int
    """The first offset: 0, unless the set is a view of an archive's column."""
    _raw_crc: int

    @property
    def is_control(self) -> bool:
        """True for what applications do not see: control records, and erased records."""
        return self.kind != Kind.DATA

    @property
    def positions(self) -> int:
        """The number of positions that the set takes; 0 for a control record."""
        return self.count if self.kind in _COUNTED else 0

    @property
    def raw_bytes(self) -> int:
        """Size of the raw body: txid column and attributes (if any), offsets, payloads."""
        columns = 4 * (self.count + 1) + self.attribute_bytes + self.payload_bytes
        return columns if self._txids is None else columns + 8 * self.count

    @property
    def attribute_bytes(self) -> int:
        """Size of keys, headers and event times in the raw body."""
        return 0 if self._attributes is None else len(self._attributes)

    @property
    def raw_crc(self) -> int:
        """CRC32C of the raw body, which identifies the content."""
        if self._raw_crc == _NOT_COMPUTED:
            self._raw_crc = _crc_of(self.body())
        return self._raw_crc

    def body(self) -> list[bytes | memoryview]:
        """Return the raw body as its columns, in order."""
        first = self._first_offset
        offsets: bytes | memoryview = self.offsets_view()
        if first:
            layout = f"<{self.count + 1}i"
            offsets = struct.pack(layout, *[one - first for one in struct.unpack(layout, offsets)])
        end = self._payloads_at + self.payload_bytes
        columns = [self.txids_view(), self._attributes]
        present: list[bytes | memoryview] = [column for column in columns if column is not None]
        return [*present, offsets, self._payloads[self._payloads_at : end]]

    def encode(self) -> bytes:
        """Return the encoded set, without compression. Raises RecordTooLargeError."""
        raw_bytes = self.raw_bytes
        _check_raw_bytes(raw_bytes)
        flags = _HAS_TXIDS if self._txids is not None else 0
        if self._attributes is not None:
            flags |= _HAS_REQUIRED
        return _joined(
            self.body(), self.extension, self.kind, Codec.NONE, flags, self.count,
            len(self.extension), raw_bytes, raw_bytes, self.first_txid, self.last_txid,
            self.position, self.producers_entry, self.created_ms, self.producer,
            self.first_sequence, self.raw_crc,
        )  # fmt: skip

    def payloads(self) -> list[bytes]:
        """Return all payloads. Raises CorruptionError if the offsets do not fit."""
        sizes = self._sizes()
        first = sizes[0]
        if sizes.count(first) == len(sizes):
            layout = f"{first}s" * len(sizes)
        else:
            layout = ("%ds" * len(sizes)) % tuple(sizes)
        # One call creates all objects; several times faster than slicing in a loop.
        return list(struct.Struct(layout).unpack_from(self._payloads, self._payloads_at))

    def largest_bytes(self, unless_below: int = 0) -> int:
        """Return the size of the largest payload. Raises CorruptionError for wrong offsets.

        If all payloads together have at most ``unless_below`` bytes, their sum is returned, which
        costs less.
        """
        if self.payload_bytes > unless_below:
            return max(self._sizes())
        self._checked_offsets()
        return self.payload_bytes

    def txids(self) -> Sequence[int]:
        """Return the txid of each record. Raises CorruptionError if they decrease."""
        if self._txids is None:
            return _repeated(self.first_txid, self.count)
        column = struct.unpack_from(f"<{self.count}q", self._txids)
        if (
            column[0] != self.first_txid
            or column[-1] != self.last_txid
            or any(map(operator.gt, column, column[1:]))
        ):
            raise CorruptionError("record set: txids decrease, or differ from the header's")
        return column

    def first_at_txid(self, txid: int) -> int:
        """Return the index of the first record with at least this txid; ``count`` if none."""
        return bisect_left(self.txids(), txid)

    def offsets_view(self) -> memoryview:
        """Return the offset column: int32[count + 1], little-endian, not checked.

        Offsets count from the beginning of ``payload_buffer``.
        """
        return self._offsets[self._offsets_at : self._offsets_at + 4 * (self.count + 1)]

    def payload_buffer(self) -> memoryview:
        """Return the bytes that offsets point into: payloads, perhaps also those of other sets."""
        return self._payloads[self._payloads_at - self._first_offset :]

    def txids_view(self) -> memoryview | None:
        """Return the txid column: int64[count], little-endian; None if all are ``first_txid``."""
        return None if self._txids is None else self._txids[: 8 * self.count]

    def _sizes(self) -> list[int]:
        offsets = self._checked_offsets()
        return list(map(operator.sub, offsets[1:], offsets))

    def _checked_offsets(self) -> Sequence[int]:
        """Return the offset of each payload and of their end. Raises CorruptionError."""
        begin = self._first_offset
        end = begin + self.payload_bytes
        if self.count == 1:  # a producer that awaits each record sends sets of one
            two: tuple[int, int] = _TWO_OFFSETS.unpack_from(self._offsets, self._offsets_at)
            if two == (begin, end):
                return two
        offsets = struct.unpack_from(f"<{self.count + 1}i", self._offsets, self._offsets_at)
        # Sorting a sorted list is one pass in C, several times faster than computing all sizes.
        if offsets[0] != begin or offsets[-1] != end or list(offsets) != sorted(offsets):
            raise CorruptionError("record set: offsets do not fit its payload")
        return offsets


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
    producer: Producer = _ANONYMOUS,
    codec: Codec = Codec.NONE,
    extension: bytes = b"",
    attributes: AttributeBuilder | None = None,
) -> bytes:
    """Encode ``payloads`` (at least one) as a record set.

    ``txids`` is needed only if first and last differ; it then holds one for each payload, in an
    order that the caller has checked. ``extension`` leaves room for the tags of ``attributes``.
    Raises RecordTooLargeError if the raw body exceeds its limit.
    """
    count = len(payloads)
    assert count > 0
    txid_column = b""
    if first_txid != last_txid:
        assert txids is not None
        assert len(txids) == count
        assert txids[0] == first_txid
        assert txids[-1] == last_txid
        txid_column = struct.pack(f"<{count}q", *txids)
    try:
        offsets = struct.pack(f"<{count + 1}i", *accumulate(map(len, payloads), initial=0))
    except struct.error as error:
        raise RecordTooLargeError(f"record set is larger than {RAW_BYTES_MAX} bytes") from error
    return encode_columns(
        count, txid_column, offsets, payloads, first_txid=first_txid, last_txid=last_txid,
        kind=kind, position=position, producers_entry=producers_entry, created_ms=created_ms,
        producer=producer, codec=codec, extension=extension, attributes=attributes,
    )  # fmt: skip


def encode_columns(
    count: int,
    txids: bytes,
    offsets: bytes,
    payloads: Iterable[bytes | memoryview],
    *,
    first_txid: int,
    last_txid: int,
    kind: Kind = Kind.DATA,
    position: int = 0,
    producers_entry: int = NO_SNAPSHOT,
    created_ms: int = 0,
    producer: Producer = _ANONYMOUS,
    codec: Codec = Codec.NONE,
    extension: bytes = b"",
    attributes: AttributeBuilder | None = None,
) -> bytes:
    """Encode columns of ``count`` records, at least one, as a record set.

    ``txids`` is int64[count], or empty if first and last are equal, ``offsets`` int32[count + 1];
    both little-endian, and not checked. ``payloads`` are the bytes of all records, in any pieces.
    Raises RecordTooLargeError if the raw body exceeds its limit.
    """
    assert count > 0
    assert len(txids) == (8 * count if first_txid != last_txid else 0)
    assert len(offsets) == 4 * (count + 1)
    parts: list[bytes | memoryview] = []
    flags = 0
    if txids:
        parts.append(txids)
        flags = _HAS_TXIDS
    if attributes is not None:
        tags, columns = attributes.encode(count)
        if tags:
            flags |= _HAS_REQUIRED
            extension += tags
            parts.append(columns)
    assert len(extension) <= EXTENSION_BYTES_MAX
    parts.append(offsets)
    parts.extend(payloads)
    if len(parts) > _FEW_PARTS or codec is not Codec.NONE:
        parts = [b"".join(parts)]
    raw_bytes = coded_bytes = sum(map(len, parts))
    _check_raw_bytes(raw_bytes)
    raw_crc = _crc_of(parts)
    if codec is not Codec.NONE:
        coded = compress(codec, bytes(parts[0]))
        if len(coded) < raw_bytes:
            parts, coded_bytes = [coded], len(coded)
        else:
            codec = Codec.NONE
    return _joined(
        parts, extension, kind, codec, flags, count, len(extension), raw_bytes, coded_bytes,
        first_txid, last_txid, position, producers_entry, created_ms, *producer, raw_crc,
    )  # fmt: skip


def _joined(parts: list[bytes | memoryview], extension: bytes, *fields: int | bytes) -> bytes:
    """Return the set with these fields of its header, without magic number and version."""
    header = HEADER.pack(MAGIC, VERSION, *fields, 0)[:_HEADER_CRC_AT]
    header_crc = crc32c.crc32c(extension, crc32c.crc32c(header))
    return b"".join((header, _HEADER_CRC.pack(header_crc), extension, *parts))


def _check_raw_bytes(raw_bytes: int) -> None:
    if raw_bytes > RAW_BYTES_MAX:
        raise RecordTooLargeError(f"record set of {raw_bytes} bytes is larger than {RAW_BYTES_MAX}")


def _crc_of(parts: Iterable[bytes | memoryview]) -> int:
    crc = 0
    for part in parts:
        crc = crc32c.crc32c(part, crc)
    return crc


def encode_control(
    kind: Kind,
    *,
    txid: int,
    position: int,
    created_ms: int,
    producers_entry: int = NO_SNAPSHOT,
    data: bytes = b"",
) -> bytes:
    """Encode a control record. ``txid`` is the last one used, or TXID_END_OF_STREAM."""
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


def encode_erased(count: int, *, txid: int, position: int, created_ms: int) -> bytes:
    """Encode a set that stands for erased records. Txid and time are those of the record before."""
    return encode_record_set(
        [b""] * count,
        first_txid=txid,
        last_txid=txid,
        kind=Kind.ERASED,
        position=position,
        created_ms=created_ms,
    )


def stamped(
    record_set: bytes,
    *,
    position: int,
    producers_entry: int = NO_SNAPSHOT,
    txid: int | None = None,
    created_ms: tuple[int, int] | None = None,
) -> bytes:
    """Return the set with another position and, if given, ``txid`` for all of its records.

    ``created_ms`` is the range into which the creation time is moved. The stream's owner calls
    this, after it decoded (and so checked) ``record_set``. Raises
    InvalidArgumentError if a txid is given for a set that has its own txid column.
    """
    flags, extension_bytes, first_txid, last_txid, created = _BEFORE_STAMP.unpack_from(record_set)
    if txid is not None:
        if flags & _HAS_TXIDS:
            raise InvalidArgumentError("the records already have txids")
        first_txid = last_txid = txid
    if created_ms is not None:
        created = max(created_ms[0], min(created, created_ms[1]))
    stamp = _STAMPED.pack(first_txid, last_txid, position, producers_entry, created)
    header = b"".join((record_set[:_STAMPED_AT], stamp, record_set[_STAMP_END:_HEADER_CRC_AT]))
    crc = crc32c.crc32c(header)
    if extension_bytes:
        crc = crc32c.crc32c(record_set[HEADER.size : HEADER.size + extension_bytes], crc)
    return b"".join((header, _HEADER_CRC.pack(crc), record_set[HEADER.size :]))


def created_ms_of(record_set: bytes) -> int:
    """Return the creation time of an encoded set, unchecked."""
    created: int = _INT64.unpack_from(record_set, _CREATED_AT)[0]
    return created


def numbering(record_set: bytes) -> tuple[int, Producer]:
    """Return the number of records, and the producer with its first sequence, unchecked.

    Only the header is read. Raises InvalidArgumentError if it is not complete.
    """
    if len(record_set) < HEADER.size:
        raise InvalidArgumentError(
            f"{len(record_set)} bytes are fewer than the header of a record set"
        )
    count, identity, first_sequence = _NUMBERING.unpack_from(record_set)
    return count, Producer(identity, first_sequence)


def has_extension(record_set: bytes) -> bool:
    """True if the set has an extension area. Its header must be complete."""
    return bool(HEADER.unpack_from(record_set)[6])


def extended(record_set: bytes, extension: bytes) -> bytes:
    """Return the set with an extension area; it must have none, and a complete header."""
    assert len(extension) <= EXTENSION_BYTES_MAX
    assert not has_extension(record_set)
    fields = HEADER.unpack_from(record_set)
    header = HEADER.pack(*fields[:6], len(extension), *fields[7:])[:_HEADER_CRC_AT]
    crc = _HEADER_CRC.pack(crc32c.crc32c(extension, crc32c.crc32c(header)))
    return b"".join((header, crc, extension, record_set[HEADER.size :]))


# --- decoding -----------------------------------------------------------------------------------


def decode_entry(payload: bytes | memoryview) -> list[RecordSet]:
    """Decode all record sets of an entry's payload, in order, and verify their checksums.

    The sets are views of the payload and keep it alive. Raises CorruptionError for anything that is
    not a complete sequence of record sets.
    """
    sets: list[RecordSet] = []
    view = memoryview(payload)
    at = slot = 0
    end = len(payload)
    while at < end or not sets:
        decoded, at = _decode_at(view, at)
        decoded.slot = slot
        slot += decoded.count
        sets.append(decoded)
    return sets


def _decode_at(view: memoryview, at: int) -> tuple[RecordSet, int]:
    if len(view) - at < HEADER.size:
        raise CorruptionError(f"record set: {len(view) - at} bytes are fewer than a header")
    (
        magic, version, kind, codec_id, flags, count, extension_bytes, raw_bytes, coded_bytes,
        first_txid, last_txid, position, producers_entry, created_ms, producer, first_sequence,
        raw_crc, header_crc,
    ) = HEADER.unpack_from(view, at)  # fmt: skip
    if magic != MAGIC or version != VERSION:
        raise CorruptionError(f"record set: unknown magic {magic!r} or version {version}")
    extension_at = at + HEADER.size
    body_at = extension_at + extension_bytes
    end = body_at + coded_bytes
    if end > len(view) or extension_bytes > EXTENSION_BYTES_MAX or raw_bytes > RAW_BYTES_MAX:
        raise CorruptionError("record set: its sizes do not fit the entry")
    extension = bytes(view[extension_at:body_at])
    if crc32c.crc32c(extension, crc32c.crc32c(view[at : at + _HEADER_CRC_AT])) != header_crc:
        raise CorruptionError("record set: wrong header checksum")
    codec = _CODECS.get(codec_id)
    if codec is None:
        raise CorruptionError(f"record set: unknown codec {codec_id}")
    raw = view[body_at:end]
    if codec is not Codec.NONE:
        raw = memoryview(decompress(codec, bytes(raw), raw_bytes))
    if len(raw) != raw_bytes or crc32c.crc32c(raw) != raw_crc:
        raise CorruptionError("record set: wrong body checksum")
    has_txids = bool(flags & _HAS_TXIDS)
    txids_end = offsets_at = 8 * count if has_txids else 0
    columns: dict[int, Column] | None = None
    if flags & _HAS_REQUIRED:
        columns = columns_in(extension, offsets_at, raw_bytes)
        offsets_at = end_of(columns, offsets_at)
    payloads_at = offsets_at + 4 * (count + 1)
    if (
        count < 1
        or payloads_at > raw_bytes
        or flags & ~_FLAGS
        or producers_entry < NO_SNAPSHOT
        or (first_txid != last_txid) is not has_txids
        or (kind not in _COUNTED and count != 1)
    ):
        raise CorruptionError("record set: the fields of its header are inconsistent")
    decoded = RecordSet()
    decoded.kind = kind
    decoded.count = count
    decoded.first_txid = first_txid
    decoded.last_txid = last_txid
    decoded.position = position
    decoded.producers_entry = producers_entry
    decoded.created_ms = created_ms
    decoded.producer, decoded.first_sequence = producer, first_sequence
    decoded.extension = extension
    decoded.attributes = None if columns is None else AttributeColumns(raw, count, columns)
    decoded.payload_bytes = raw_bytes - payloads_at
    decoded._txids = raw if has_txids else None
    decoded._attributes = None if columns is None else raw[txids_end:offsets_at]
    decoded._offsets = decoded._payloads = raw
    decoded._offsets_at = offsets_at
    decoded._payloads_at = payloads_at
    decoded._first_offset = 0
    decoded._raw_crc = raw_crc
    _check_fields(decoded)
    return decoded, end


def set_of_columns(
    txids: memoryview,
    offsets: memoryview,
    payloads: memoryview,
    *,
    slot: int,
    position: int,
    created_ms: int,
    producer: Producer = _ANONYMOUS,
    attributes: AttributeBuilder | None = None,
) -> RecordSet:
    """Return a data set that is a view of columns, as an archive has them.

    ``txids`` is int64[count], and ``offsets`` int32[count + 1]; both little-endian. The offsets
    count from the beginning of ``payloads``, which may contain more than those of the set. Raises
    CorruptionError if they are outside of it, or for values that a set cannot have.
    """
    count = len(txids) // 8
    assert count > 0
    assert len(offsets) == 4 * (count + 1)
    begin = int(_OFFSET.unpack_from(offsets)[0])
    end = int(_OFFSET.unpack_from(offsets, 4 * count)[0])
    if not 0 <= begin <= end <= len(payloads):
        raise CorruptionError("record set: offsets do not fit its payload")
    made = RecordSet()
    made.kind = Kind.DATA
    made.count = count
    made.slot = slot
    made.first_txid = int(_INT64.unpack_from(txids)[0])
    made.last_txid = int(_INT64.unpack_from(txids, 8 * (count - 1))[0])
    made.position = position
    made.producers_entry = NO_SNAPSHOT
    made.created_ms = created_ms
    made.producer, made.first_sequence = producer
    made.payload_bytes = end - begin
    made._txids = txids if made.first_txid != made.last_txid else None
    made._offsets = offsets
    made._offsets_at = 0
    made._payloads = payloads
    made._payloads_at = made._first_offset = begin
    made._raw_crc = _NOT_COMPUTED
    tags, columns = (b"", b"") if attributes is None else attributes.encode(count)
    made.extension = tags
    if tags:
        view = memoryview(columns)
        found = columns_in(tags, 0, len(columns))
        made._attributes, made.attributes = view, AttributeColumns(view, count, found)
    else:
        made._attributes = made.attributes = None
    _check_fields(made)
    return made


def _check_fields(one: RecordSet) -> None:
    """Raise CorruptionError if a set has a position or txids that no set can have."""
    if one.position < 0 or not (
        TXID_FIRST <= one.first_txid <= one.last_txid
        if one.kind == Kind.DATA
        else one.first_txid >= 0
    ):
        raise CorruptionError("record set: the fields of its header are inconsistent")


# --- extension area -----------------------------------------------------------------------------

_TLV = struct.Struct("<HH")


def encode_extension(values: Mapping[int, bytes]) -> bytes:
    """Encode small extras, e.g. a trace context, as tag, length, value, in order of tags.

    Raises InvalidArgumentError if the result is larger than EXTENSION_BYTES_MAX.
    """
    if sum(map(len, values.values())) + _TLV.size * len(values) > EXTENSION_BYTES_MAX:
        raise InvalidArgumentError(f"extensions are larger than {EXTENSION_BYTES_MAX} bytes in all")
    return b"".join(_TLV.pack(tag, len(data)) + data for tag, data in sorted(values.items()))


def decode_extension(area: bytes) -> dict[int, bytes]:
    """Decode an extension area; unknown tags are kept. Raises CorruptionError."""
    values: dict[int, bytes] = {}
    at = 0
    while at < len(area):
        if at + _TLV.size > len(area):
            raise CorruptionError("record set: truncated extension area")
        tag, length = _TLV.unpack_from(area, at)
        at += _TLV.size
        if at + length > len(area) or tag in values:
            raise CorruptionError("record set: bad extension area")
        values[tag] = area[at : at + length]
        at += length
    return values
