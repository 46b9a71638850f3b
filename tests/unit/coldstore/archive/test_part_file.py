"""Readers of byte ranges notice every damage to a footer before they parse it."""

import asyncio
import hashlib
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from rhumbline.coldstore.archive import part_file
from rhumbline.coldstore.archive.manifest import Part
from rhumbline.coldstore.archive.part import PartWriter
from rhumbline.coldstore.archive.part_file import PartFile, footer_of
from rhumbline.coldstore.archive.schema import PartOrigin
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.protocol.record_set import decode_entry, encode_record_set
from rhumbline.tests.unit.coldstore.archive.archive_world import DictColdStore

KEY = "ns/s/id/part"


def written_part() -> tuple[Part, bytes]:
    """Return a part of several row groups."""
    writer = PartWriter(PartOrigin("ns", "s", "9f86d081884c7d65", 1), 25)
    for entry_id in range(6):
        payloads = [b"%d/%d" % (entry_id, n) * 3 for n in range(4)]
        txid = 10 + entry_id
        writer.add(
            entry_id, decode_entry(encode_record_set(payloads, first_txid=txid, last_txid=txid))
        )
    data = writer.finish()
    return writer.describe("part", data), data


def rows_read(part: Part, data: bytes) -> list[bytes]:
    """Read all row groups of ``data`` as the part that the manifest describes."""

    async def read() -> list[bytes]:
        cold = DictColdStore()
        cold.objects[KEY] = data
        file = await PartFile.open(cold, KEY, part)
        rows: list[bytes] = []
        for group in range(len(file.row_groups)):
            rows += (await file.read(group)).column("payload").to_pylist()
        return rows

    return asyncio.run(read())


def test_a_flipped_bit_of_the_footer_is_found_before_it_is_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A flipped bit gave fewer rows without an error, or aborted the process."""
    part, data = written_part()
    assert len(rows_read(part, data)) == 24
    parsed: list[object] = []
    monkeypatch.setattr(pq, "read_metadata", parsed.append)
    for offset in range(len(data) - len(footer_of(data)), len(data), 7):
        damaged = bytearray(data)
        damaged[offset] ^= 1 << offset % 8
        with pytest.raises(CorruptionError, match=KEY):
            rows_read(part, bytes(damaged))
    assert not parsed


def test_a_footer_that_is_longer_than_the_first_read_is_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(part_file, "_TAIL_BYTES", 100)
    part, data = written_part()
    assert len(footer_of(data)) > 100
    assert len(rows_read(part, data)) == 24
    damaged = bytearray(data)
    damaged[-500] ^= 1
    with pytest.raises(CorruptionError, match="SHA-256 of the footer"):
        rows_read(part, bytes(damaged))


def test_rows_are_counted_against_the_manifest() -> None:
    """A footer with fewer row groups gave short results."""
    part, data = written_part()
    with pytest.raises(CorruptionError, match="24 records, the manifest lists 25"):
        rows_read(replace(part, record_count=25), data)


def test_a_manifest_describes_the_footer() -> None:
    part, data = written_part()
    length = int.from_bytes(data[-8:-4], "little")
    assert part.footer_sha256 == hashlib.sha256(data[-length - 8 :]).hexdigest()
