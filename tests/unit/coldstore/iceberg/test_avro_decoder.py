"""Damaged lengths in the files of tables are found; pyiceberg's own decoder ended the process."""

import asyncio
from pathlib import Path

import pytest

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.iceberg.avro_decoder import BoundedDecoder
from rhumbline.coldstore.iceberg.check_tables import check_tables
from rhumbline.tests.unit.coldstore.iceberg.table_world import TableWorld
from rhumbline.tests.unit.spark.spark_world import archive_on_disk

_SYNC_BYTES = 16
_GIGABYTE = b"\x80\x80\x80\x80\x08"
"""A length of 2**30 in the zigzag form of Avro."""


@pytest.mark.parametrize("length", [b"\x08", _GIGABYTE])
def test_lengths_beyond_the_end_are_errors(length: bytes) -> None:
    with pytest.raises(EOFError):
        BoundedDecoder(length + b"abc").read_bytes()
    with pytest.raises(EOFError):
        BoundedDecoder(length + b"abc").skip_bytes()
    assert BoundedDecoder(b"\x06abc").read_bytes() == b"abc"


def test_nothing_is_skipped_backwards() -> None:
    decoder = BoundedDecoder(b"\x01abc")
    with pytest.raises(ValueError, match="-1 bytes"):
        decoder.skip_bytes()


def _lengthen_block(path: Path) -> None:
    data = path.read_bytes()
    block = data.index(data[-_SYNC_BYTES:]) + _SYNC_BYTES
    assert data[block] == 2, "one record, before the length of the block"
    path.write_bytes(data[: block + 1] + _GIGABYTE + data[block + 1 :])


@pytest.mark.parametrize("kind", ["manifest list", "manifest"])
def test_a_block_that_claims_a_gigabyte_is_a_fault(kind: str, tmp_path: Path) -> None:
    archive_on_disk(tmp_path / "cold", segments=1)

    async def check() -> str:
        world = TableWorld(tmp_path / "cold")
        try:
            await world.registrar().run_once()
            table = world.table()
            snapshot = table.current_snapshot()
            assert snapshot is not None
            (manifest,) = snapshot.manifests(table.io)
            uri = snapshot.manifest_list if kind == "manifest list" else manifest.manifest_path
            _lengthen_block(Path(uri.removeprefix("file://")))
            listing = await scan_manifests(world.cold)
            (fault,) = (await check_tables(world.cold, world.tables, listing.folders)).values()
            return str(fault)
        finally:
            await world.close()

    assert "table of test/s/" in asyncio.run(check())
