"""Writes an archive of synthetic records in the archiver's format, without a cluster."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

from ..coldstore.archive.archive_folder import ArchiveFolder, part_name
from ..coldstore.archive.content_digest import ContentDigest
from ..coldstore.archive.manifest import CHAIN_START, Manifest, Part
from ..coldstore.archive.part import PartWriter
from ..coldstore.archive.schema import PartOrigin
from ..coldstore.config import ArchiveConfig
from ..coldstore.proof.chain_tip import empty_tip
from ..core.protocol.dlsn import STREAM_ID_CHARACTERS
from ..core.protocol.record_set import RecordSet, decode_entry, encode_record_set

NAMESPACE = "bench"
STREAM = "scan"

_IDENTITY = "0" * 32
_SIZES = ArchiveConfig()
_SEGMENTS = 5
_RECORDS_PER_SET = 250
_POOL_BYTES = 8 << 20
_TEXT = b'GET /orders/2026/11/ HTTP/1.1" 200 "-" "region=bonn ensemble=3/3/2 latency_ms='
_FIRST_TXID = 1_790_000_000_000


def write_archive(root: Path, records: int, size: int) -> list[Manifest]:
    """Write a chain of five segments with ``records`` records of ``size`` bytes in total.

    Half of each payload is repeated text and half is random; every record has a distinct txid.
    """
    random = Random(11)
    pool = random.randbytes(_POOL_BYTES)
    manifests: list[Manifest] = []
    for lssn in range(1, _SEGMENTS + 1):
        first = (lssn - 1) * records // _SEGMENTS
        end = lssn * records // _SEGMENTS
        manifests.append(
            _write_segment(root, lssn, range(first, end), size, random, pool, manifests)
        )
    return manifests


def _write_segment(
    root: Path,
    lssn: int,
    numbers: range,
    size: int,
    random: Random,
    pool: bytes,
    before: list[Manifest],
) -> Manifest:
    folder = ArchiveFolder(NAMESPACE, STREAM, _IDENTITY[:STREAM_ID_CHARACTERS])
    records = root / folder.records
    for path in (records, root / folder.chain):
        path.mkdir(parents=True, exist_ok=True)
    digest = ContentDigest()
    parts: list[Part] = []
    origin = PartOrigin(NAMESPACE, STREAM, _IDENTITY, lssn)
    writer = PartWriter(origin, _SIZES.row_group_bytes)
    entry_id = -1
    for entry_id, record_set in enumerate(_record_sets(numbers, size, random, pool)):
        digest.add(entry_id, record_set.slot, record_set.raw_crc)
        writer.add(entry_id, [record_set])
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
        payload_bytes=len(numbers) * size,
        first_txid=_FIRST_TXID + numbers.start,
        last_txid=_FIRST_TXID + numbers.stop - 1,
        start_sequence_id=numbers.start,
        created_ms=_FIRST_TXID,
        completed_ms=_FIRST_TXID,
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


def _record_sets(numbers: range, size: int, random: Random, pool: bytes) -> Iterator[RecordSet]:
    noise = size // 2
    text = (_TEXT * (size // len(_TEXT) + 1))[: size - noise]
    for start in range(numbers.start, numbers.stop, _RECORDS_PER_SET):
        count = min(_RECORDS_PER_SET, numbers.stop - start)
        at = random.randrange(_POOL_BYTES - count * 64 - size)
        first = _FIRST_TXID + start
        encoded = encode_record_set(
            [text + pool[begin : begin + noise] for begin in range(at, at + count * 64, 64)],
            first_txid=first,
            last_txid=first + count - 1,
            txids=range(first, first + count),
            created_ms=first,
        )
        yield decode_entry(encoded)[0]


def _write_part(folder: Path, lssn: int, number: int, writer: PartWriter) -> Part:
    data = writer.finish()
    name = part_name(lssn, number, f"{number:016x}")
    (folder / name).write_bytes(data)
    return writer.describe(name, data)
