"""Writes an archive of synthetic records in the archiver's format, without a cluster."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ..coldstore.archive.archive_folder import ArchiveFolder, part_name
from ..coldstore.archive.content_digest import ContentDigest
from ..coldstore.archive.manifest import CHAIN_START, Manifest, Part
from ..coldstore.archive.part import PartWriter
from ..coldstore.archive.schema import PartOrigin
from ..coldstore.config import ArchiveConfig
from ..coldstore.proof.chain_tip import empty_tip
from ..core.protocol.attributes.attribute_columns import AttributeBuilder, attribute_builder
from ..core.protocol.attributes.attribute_values import Attributes
from ..core.protocol.dlsn import STREAM_ID_CHARACTERS
from ..core.protocol.record_set import RecordSet, decode_entry, encode_record_set

NAMESPACE = "bench"
STREAM = "scan"
SET_RECORDS = 250
"""Records of an entry, unless the segment ends before."""
FIRST_TXID = 1_790_000_000_000
"""Txid of the first record, and its creation time in milliseconds."""

_IDENTITY = "0" * 32
_SIZES = ArchiveConfig()
_POOL_BYTES = 8 << 20
_TEXT = b'GET /orders/2026/11/ HTTP/1.1" 200 "-" "region=bonn ensemble=3/3/2 latency_ms='


@dataclass(frozen=True, slots=True)
class ArchiveShape:
    """The shape of an archive of one stream."""

    records: int
    size: int
    """Bytes of each record: half of it is repeated text and half is random."""
    segments: int = 5
    keys: int = 0
    """Number of different keys, which the records have in turn; 0: records have no keys."""
    interval_ms: int = 1
    """Time between the creation of two records, as far as a record set with one time shows it."""

    def key(self, number: int) -> bytes:
        """Return the key of a record."""
        return b"user-%04d" % (number % self.keys)

    def created_ms(self, number: int) -> int:
        """Return the creation time of a record that is the first one of a record set."""
        return FIRST_TXID + number * self.interval_ms

    def numbers(self, lssn: int) -> range:
        """Return the numbers, from 0, of the records of a segment."""
        return range(
            (lssn - 1) * self.records // self.segments, lssn * self.records // self.segments
        )


def write_archive(root: Path, shape: ArchiveShape) -> list[Manifest]:
    """Write a chain of segments. Every record has a distinct txid."""
    random = Random(11)
    pool = random.randbytes(_POOL_BYTES)
    manifests: list[Manifest] = []
    for lssn in range(1, shape.segments + 1):
        manifests.append(_write_segment(root, shape, lssn, random, pool, manifests))
    return manifests


def _write_segment(
    root: Path, shape: ArchiveShape, lssn: int, random: Random, pool: bytes, before: list[Manifest]
) -> Manifest:
    folder = ArchiveFolder(NAMESPACE, STREAM, _IDENTITY[:STREAM_ID_CHARACTERS])
    records, numbers = root / folder.records, shape.numbers(lssn)
    for path in (records, root / folder.chain):
        path.mkdir(parents=True, exist_ok=True)
    digest = ContentDigest()
    parts: list[Part] = []
    origin = PartOrigin(NAMESPACE, STREAM, _IDENTITY, lssn)
    writer = PartWriter(origin, _SIZES.row_group_bytes)
    entry_id = -1
    created_ms = shape.created_ms(numbers.start)
    for entry_id, record_set in enumerate(_record_sets(shape, numbers, random, pool)):
        digest.add(entry_id, record_set.slot, record_set.raw_crc)
        writer.add(entry_id, [record_set])
        created_ms = record_set.created_ms
        if writer.stored_bytes >= _SIZES.part_bytes:
            parts.append(_write_part(records, lssn, len(parts), writer))
            writer = PartWriter(origin, _SIZES.row_group_bytes)
    if writer.record_count:
        parts.append(_write_part(records, lssn, len(parts), writer))
    manifest = Manifest(
        namespace=NAMESPACE,
        stream=STREAM,
        stream_identity=_IDENTITY,
        lssn=lssn,
        last_entry_id=entry_id,
        record_count=len(numbers),
        payload_bytes=len(numbers) * shape.size,
        first_txid=FIRST_TXID + numbers.start,
        last_txid=FIRST_TXID + numbers.stop - 1,
        start_sequence_id=numbers.start,
        created_ms=shape.created_ms(numbers.start),
        completed_ms=created_ms,
        ends_stream=False,
        content_digest=digest.hex(),
        previous_link=before[-1].link if before else CHAIN_START,
        parts=tuple(parts),
    )
    (root / manifest.key).write_bytes(manifest.encode())
    tip = empty_tip((before or [manifest])[0]).with_last(manifest)
    (root / folder.tips).mkdir(exist_ok=True)
    (root / folder.tip(tip.name)).write_bytes(tip.encode())
    return manifest


def _record_sets(
    shape: ArchiveShape, numbers: range, random: Random, pool: bytes
) -> Iterator[RecordSet]:
    noise = shape.size // 2
    text = (_TEXT * (shape.size // len(_TEXT) + 1))[: shape.size - noise]
    for start in range(numbers.start, numbers.stop, SET_RECORDS):
        count = min(SET_RECORDS, numbers.stop - start)
        at = random.randrange(_POOL_BYTES - count * 64 - shape.size)
        first = FIRST_TXID + start
        encoded = encode_record_set(
            [text + pool[begin : begin + noise] for begin in range(at, at + count * 64, 64)],
            first_txid=first,
            last_txid=first + count - 1,
            txids=range(first, first + count),
            created_ms=shape.created_ms(start),
            attributes=_keys(shape, range(start, start + count)) if shape.keys else None,
        )
        yield decode_entry(encoded)[0]


def _keys(shape: ArchiveShape, numbers: range) -> AttributeBuilder:
    return attribute_builder(Attributes(shape.key(number), None, None) for number in numbers)


def _write_part(folder: Path, lssn: int, number: int, writer: PartWriter) -> Part:
    data = writer.finish()
    name = part_name(lssn, number, f"{number:016x}")
    (folder / name).write_bytes(data)
    return writer.describe(name, data)
