"""Writes test vectors for decoders of record sets: entries as files, and what is in them as JSON.

Each vector is the payload of one entry. Those that must be refused name the code of the error.
"""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import crc32c

from ...core.protocol.attributes.attribute_columns import attribute_builder
from ...core.protocol.attributes.attribute_values import Attributes
from ...core.protocol.compression import Codec
from ...core.protocol.errors import CorruptionError, ForeignDataError
from ...core.protocol.record_set import (
    HEADER,
    NO_PRODUCER,
    RAW_BYTES_MAX,
    TXID_END_OF_STREAM,
    Kind,
    Producer,
    RecordSet,
    decode_entry,
    encode_control,
    encode_extension,
    encode_record_set,
    stamped,
)
from ...core.runtime.trace_context import trace_extension, traceparent_in

INDEX = "vectors.json"

_TIME = 1_700_000_000_000
_FIELDS = (
    "magic", "version", "kind", "codec", "flags", "count", "extension_bytes", "raw_bytes",
    "coded_bytes", "first_txid", "last_txid", "position", "producers_entry", "created_ms",
    "producer", "first_sequence", "raw_crc", "header_crc",
)  # fmt: skip
_UNKNOWN = 200  # a kind, codec or tag that does not exist
_NO_ATTRIBUTES = Attributes(None, None, None)
_TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Vector(NamedTuple):
    """One entry, and either its record sets or the code of the error that refuses it."""

    name: str
    meaning: str
    entry: bytes
    refused: str = ""


def vectors() -> list[Vector]:
    """Return all vectors, those that can be decoded first."""
    return [*_good(), *_refused()]


def write_vectors(folder: Path) -> None:
    """Write the files of all vectors and their index; remove files of vectors that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    known = vectors()
    for path in folder.glob("*.bin"):
        path.unlink()
    for vector in known:
        (folder / file_name(vector)).write_bytes(vector.entry)
    (folder / INDEX).write_text(index_text(known), encoding="utf-8")


def file_name(vector: Vector) -> str:
    """Return the name of the file that holds the entry."""
    return f"{vector.name}.bin"


def index_text(known: list[Vector]) -> str:
    """Return the JSON that describes the vectors."""
    described = [_described(vector) for vector in known]
    return json.dumps({"version": 1, "vectors": described}, indent=1) + "\n"


def _described(vector: Vector) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": vector.name,
        "meaning": vector.meaning,
        "file": file_name(vector),
        "bytes": len(vector.entry),
    }
    if vector.refused:
        return found | {"refused": vector.refused}
    return found | {"sets": [_described_set(one) for one in decode_entry(vector.entry)]}


def _described_set(record_set: RecordSet) -> dict[str, Any]:
    numbered = record_set.producer != NO_PRODUCER
    found: dict[str, Any] = {
        "kind": record_set.kind,
        "is_hidden": record_set.is_control,
        "first_slot": record_set.slot,
        "position": record_set.position,
        "producers_entry": record_set.producers_entry,
        "created_ms": record_set.created_ms,
        "producer": record_set.producer.hex() if numbered else None,
        "first_sequence": record_set.first_sequence if numbered else None,
        "traceparent": traceparent_in(record_set.extension),
        "raw_crc": f"{record_set.raw_crc:08x}",
    }
    rows = zip(record_set.payloads(), record_set.txids(), strict=True)
    records: list[dict[str, Any]] = [{"txid": txid, "payload": data.hex()} for data, txid in rows]
    columns = record_set.attributes
    if columns is not None:
        attributes = zip(
            records, columns.keys(), columns.headers(), columns.event_times(), strict=True
        )
        for row, key, headers, event_time in attributes:
            row["key"] = None if key is None else key.hex()
            row["headers"] = {name: value.hex() for name, value in headers.items()}
            row["event_time"] = event_time
    return found | {"records": records}


# --- entries that are decoded -------------------------------------------------------------------


def _data(*payloads: bytes, txid: int = 1, **more: Any) -> bytes:  # noqa: ANN401 - of the encoder
    values = {"first_txid": txid, "last_txid": txid, "created_ms": _TIME} | more
    return encode_record_set(payloads, **values)


def _with_txids(*txids: int) -> bytes:
    payloads = [b"at %d" % txid for txid in txids]
    return _data(*payloads, first_txid=txids[0], last_txid=txids[-1], txids=txids)


def _good() -> Iterator[Vector]:
    yield Vector("two-records", "two records with one txid, without producer", _two())
    yield Vector("empty-payload", "an empty payload between two others", _data(b"a", b"", b"b"))
    yield Vector("one-empty-payload", "one record without a byte", _data(b""))
    yield Vector("txid-column", "txids that differ, two of them equal", _with_txids(7, 9, 9, 12))
    producer = Producer(bytes(range(16)), 41)
    yield Vector(
        "numbered", "records 41 and 42 of a producer", _data(b"x", b"y", producer=producer)
    )
    traced = _data(b"traced", extension=trace_extension(_TRACEPARENT))
    yield Vector("traced", "a traceparent in the extension area", traced)
    unknown = encode_extension({_UNKNOWN: b"later"})
    yield Vector("unknown-extension", "an unknown tag is ignored", _data(b"x", extension=unknown))
    yield Vector(
        "stamped",
        "position 5, deduplication table in entry 3, txid 77, as the owner stamped it",
        stamped(_two(), position=5, producers_entry=3, txid=77),
    )
    yield Vector("zstd", "a body in zstd: one raw block, and one that repeats a byte", _zstd())
    flush = encode_control(Kind.FLUSH, txid=1, position=2, created_ms=_TIME)
    three = _two() + flush + stamped(_data(b"third"), position=2)
    yield Vector("several-sets", "slots count through all sets, a hidden one among them", three)
    end = encode_control(
        Kind.END_OF_STREAM,
        txid=TXID_END_OF_STREAM,
        position=2,
        created_ms=_TIME,
        data=struct.pack("<q", 1),
    )
    yield Vector("end-of-stream", "two records, and the end of the stream", _two() + end)
    later = _resealed(flush, kind=_UNKNOWN)
    yield Vector("unknown-kind", "a hidden record of an unknown kind", later + _two())

    yield from _with_attributes()


def _with_attributes() -> Iterator[Vector]:
    yield Vector("attributes", "keys, headers and event times; not each record has all", _rich())
    keys = _data(b"a", b"b", attributes=attribute_builder([_key(b"1"), _key(b"2")]))
    yield Vector("keys-only", "a column of keys without a bitmap", keys)
    nine = attribute_builder(
        Attributes(None, None, None if index in (0, 8) else -index) for index in range(10)
    )
    sparse = _data(*[b"%d" % index for index in range(10)], attributes=nine)
    yield Vector("sparse-event-times", "a bitmap of two bytes, times before 1970", sparse)
    both = _data(
        b"a",
        b"b",
        first_txid=3,
        last_txid=4,
        txids=[3, 4],
        attributes=attribute_builder([_key(b""), _NO_ATTRIBUTES]),
        extension=trace_extension(_TRACEPARENT),
    )
    yield Vector("attributes-and-txids", "an empty key, txids and a traceparent", both)


def _key(key: bytes) -> Attributes:
    return Attributes(key, None, None)


def _rich() -> bytes:
    return _data(
        b"one",
        b"two",
        b"three",
        attributes=attribute_builder(
            [
                Attributes(b"user-7", {"trace": b"ab", "empty": b""}, _TIME - 1000),
                _NO_ATTRIBUTES,
                Attributes(None, {"trace": b"cd"}, None),
            ]
        ),
    )


def _two() -> bytes:
    return _data(b"hello", b"world!")


def _zstd(declared: int = 0, *, tail: bytes = b"", names_size: bool = True) -> bytes:
    """Return a set of one record whose zstd frame was made by hand.

    The bytes of a compressor would change with its version.
    """
    payload = b"z" * 600
    raw = struct.pack("<2i", 0, len(payload)) + payload
    blocks = b"".join(
        (_block(raw[:8], 0, 8, is_last=False), _block(b"z", 1, len(payload), is_last=True))
    )
    single_segment, two_bytes, window = 0x20, 0x40, 0x58
    size = struct.pack("<H", len(raw) - 256)
    header = bytes([single_segment | two_bytes]) + size if names_size else bytes([0, window])
    coded = b"\x28\xb5\x2f\xfd" + header + blocks + tail
    plain = _data(payload)
    return _resealed(
        plain[: HEADER.size] + coded,
        codec=Codec.ZSTD,
        coded_bytes=len(coded),
        raw_bytes=declared or len(raw),
    )


def _block(content: bytes, kind: int, size: int, *, is_last: bool) -> bytes:
    return struct.pack("<I", size << 3 | kind << 1 | is_last)[:3] + content


# --- entries that are refused -------------------------------------------------------------------


def _refused() -> Iterator[Vector]:
    for name, meaning, entry in (
        *_damaged(),
        *_contradictory(),
        *_bad_columns(),
        *_bad_attributes(),
        *_bad_zstd(),
    ):
        yield Vector(name, meaning, entry, CorruptionError.code)
    unknown = encode_extension({0x9000: bytes(4)})
    yield Vector(
        "unknown-required-tag",
        "tag 0x9000, which a decoder must know to read the body",
        _resealed(_data(b"x", extension=unknown), flags=2),
        ForeignDataError.code,
    )


def _damaged() -> Iterator[tuple[str, str, bytes]]:
    good = _two()
    yield "no-bytes", "an entry has at least one set", b""
    yield "half-header", "fewer bytes than a header", good[:50]
    yield "half-body", "the body ends early", good[:-1]
    yield "one-byte-more", "a byte after the last set", good + b"\0"
    yield "wrong-magic", "the magic is RhRT", _resealed(good, magic=b"RhRT")
    yield "unknown-version", "version 2", _resealed(good, version=2)
    yield "flipped-header-bit", "one bit of the creation time", _flipped(good, 56)
    yield "flipped-header-checksum", "one bit of the header's checksum", _flipped(good, 92)
    yield "flipped-body-bit", "one bit of a payload", _flipped(good, len(good) - 1)
    traced = _data(b"traced", extension=trace_extension(_TRACEPARENT))
    yield "flipped-extension-bit", "one bit of the extension area", _flipped(traced, HEADER.size)


def _contradictory() -> Iterator[tuple[str, str, bytes]]:
    good = _two()
    control = encode_control(Kind.FLUSH, txid=1, position=0, created_ms=_TIME)
    yield "unknown-codec", "codec 200", _resealed(good, codec=_UNKNOWN)
    yield "unknown-flag", "flag 128", _resealed(good, flags=128)
    yield "no-records", "the number of records is 0", _resealed(good, count=0)
    yield "too-many-records", "the offsets do not fit the body", _resealed(good, count=1_000_000)
    yield "huge-extension", "more bytes than the entry has", _resealed(good, extension_bytes=4_000)
    yield "huge-body", "a raw body above 16 MiB", _resealed(good, raw_bytes=RAW_BYTES_MAX + 1)
    yield "raw-size-differs", "not the bytes that are stored", _resealed(good, raw_bytes=22)
    yield "negative-position", "position -1", _resealed(good, position=-1)
    yield "wrong-table", "deduplication table in entry -2", _resealed(good, producers_entry=-2)
    yield "txid-zero", "txids begin at 1", _resealed(good, first_txid=0, last_txid=0)
    yield "txids-without-column", "two txids, no column", _resealed(good, last_txid=2)
    yield "column-without-txids", "a column, one txid", _resealed(_with_txids(1, 2), last_txid=1)
    yield "two-control-records", "a hidden set has one record", _resealed(good, kind=Kind.FLUSH)
    yield (
        "control-txid-negative",
        "a hidden set with txid -1",
        _resealed(control, first_txid=-1, last_txid=-1),
    )


def _bad_columns() -> Iterator[tuple[str, str, bytes]]:
    """Columns with good checksums; a lazy decoder finds these when it uses the column."""
    txids = _with_txids(1, 3, 4)
    yield "txids-fall", "txids 1, 5, 4", _with_body(txids, 8, struct.pack("<q", 5))
    yield "txid-differs", "the first txid is not the header's", _with_body(txids, 0, b"\2")
    good = _two()
    yield "first-offset", "the first offset is 1", _with_body(good, 0, b"\1")
    yield "offsets-fall", "offsets 0, 12, 11", _with_body(good, 4, b"\x0c")
    yield "last-offset", "the last offset is not the end", _with_body(good, 8, b"\x0a")
    yield "negative-offset", "offset -1", _with_body(good, 4, struct.pack("<i", -1))


def _bad_attributes() -> Iterator[tuple[str, str, bytes]]:
    rich = _rich()  # 3 records: event times of 40 bytes, keys of 40 bytes, headers
    yield "flag-without-tags", "flag 2 and no required tag", _resealed(_two(), flags=2)
    yield "absent-count", "2 absent, but all of the bitmap's bits set", _with_body(rich, 8, b"\7")
    yield "bit-beyond-count", "a bit of a record that is not there", _with_body(rich, 8, b"\x10")
    yield "absent-with-value", "an event time of a record without one", _with_body(rich, 24, b"\1")
    yield "padding", "a byte of padding that is not 0", _with_body(rich, 15, b"\1")
    yield "key-offsets", "offsets of keys that fall", _with_body(rich, 60, b"\7")
    size = HEADER.size + 4
    too_large = rich[:size] + struct.pack("<I", 1 << 20) + rich[size + 4 :]
    yield "column-beyond-body", "a column larger than the body", _resealed(too_large)
    odd = rich[:size] + struct.pack("<I", 39) + rich[size + 4 :]
    yield "column-not-aligned", "a column of 39 bytes", _resealed(odd)


def _bad_zstd() -> Iterator[tuple[str, str, bytes]]:
    yield "zstd-size-differs", "the frame names another size", _zstd(609)
    yield "zstd-without-size", "the frame does not name its size", _zstd(names_size=False)
    yield "zstd-and-more", "a byte after the frame", _zstd(tail=b"\0")
    damaged = bytearray(_zstd())
    damaged[HEADER.size + 7] |= 0x06  # a block of the reserved kind
    yield "zstd-bad-block", "a block of a reserved kind", bytes(damaged)


def _flipped(entry: bytes, at: int) -> bytes:
    return entry[:at] + bytes([entry[at] ^ 1]) + entry[at + 1 :]


def _with_body(entry: bytes, at: int, data: bytes) -> bytes:
    """Replace bytes of a raw body and make its checksum right again."""
    at += HEADER.size + HEADER.unpack_from(entry)[_FIELDS.index("extension_bytes")]
    return _resealed(entry[:at] + data + entry[at + len(data) :])


def _resealed(entry: bytes, **changes: Any) -> bytes:  # noqa: ANN401 - values of the header
    """Return one set with other fields in its header, and right checksums."""
    fields = dict(zip(_FIELDS, HEADER.unpack_from(entry), strict=True))
    body_at = HEADER.size + fields["extension_bytes"]
    if fields["codec"] == Codec.NONE and "codec" not in changes:
        fields["raw_crc"] = crc32c.crc32c(entry[body_at:])
    fields |= changes
    header = HEADER.pack(*fields.values())[:-4]
    crc = crc32c.crc32c(entry[HEADER.size : body_at], crc32c.crc32c(header))
    return header + struct.pack("<I", crc) + entry[HEADER.size :]


if __name__ == "__main__":
    write_vectors(Path(sys.argv[1]))
