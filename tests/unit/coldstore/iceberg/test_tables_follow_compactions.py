"""A table has each record once while compactions move its records, and when it is created later."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.archive.relocation import Erasure
from rhumbline.coldstore.erase.eraser import ArchiveEraser
from rhumbline.coldstore.erase.selection import RecordSelection
from rhumbline.tests.unit.coldstore.compact.compaction_world import (
    compact_completely,
    compact_once,
)
from rhumbline.tests.unit.coldstore.iceberg.table_world import TableWorld
from rhumbline.tests.unit.spark.spark_world import Row, archive_on_disk


@asynccontextmanager
async def opened(root: Path) -> AsyncIterator[TableWorld]:
    world = TableWorld(root / "cold")
    try:
        yield world
    finally:
        await world.close()


def check_rows(world: TableWorld, rows: list[Row], files: int) -> None:
    order = [("lssn", "ascending"), ("entry_id", "ascending"), ("slot", "ascending")]
    found = world.table().scan().to_arrow().sort_by(order)
    assert found.column("payload").to_pylist() == [row[2] for row in rows]
    assert len(list(world.table().scan().plan_files())) == files


def test_each_relocation_is_one_commit(tmp_path: Path) -> None:
    rows = list(archive_on_disk(tmp_path / "cold"))

    async def check() -> None:
        async with opened(tmp_path) as world:
            await world.registrar().run_until_even()
            parts = len(list(world.table().scan().plan_files()))
            commits = len(world.snapshots())
            for now_ms, files in ((10_000, 1), (20_000, 1), (30_000, 1)):
                await compact_once(world.cold, now_ms)
                if now_ms < 30_000:
                    check_rows(world, rows, parts)  # the table has not noticed it yet
                else:  # replaced files are gone a grace period later
                    assert not list((world.root / "test/s/_staged").rglob("*.parquet"))
                done = await world.registrar().run_until_even()
                assert (done.faults, done.replaced) == ({}, int(now_ms < 30_000))
                check_rows(world, rows, files)
                parts = files
            assert [one[0] for one in world.snapshots()[commits:]] == ["overwrite"] * 2

    asyncio.run(check())


def test_a_table_that_is_created_later_has_each_record_once(tmp_path: Path) -> None:
    rows = list(archive_on_disk(tmp_path / "cold"))

    async def check() -> None:
        async with opened(tmp_path) as world:
            await compact_completely(world.cold)
            done = await world.registrar().run_until_even()
            assert (done.faults, done.registered) == ({}, 4)
            check_rows(world, rows, 1)
            (summary,) = await world.tables.summaries("test")
            assert (summary.state.first_lssn, summary.state.last_lssn) == (1, 4)
            listing = await scan_manifests(world.cold)
            archives = ColdArchives(world.cold, "test")
            (folder,) = listing.folders
            await archives.expire("s", folder.stream_id, below=5, completed_by_ms=2**60)
            done = await world.registrar().run_until_even()
            assert (done.faults, done.removed) == ({}, 1)
            check_rows(world, [], 0)

    asyncio.run(check())


def test_erased_records_leave_the_table(tmp_path: Path) -> None:
    rows = list(archive_on_disk(tmp_path / "cold"))

    async def check() -> None:
        async with opened(tmp_path) as world:
            await world.registrar().run_until_even()
            parts = len(list(world.table().scan().plan_files()))
            eraser = ArchiveEraser(
                world.cold, RecordSelection(frozenset({b"k20"})), wall_ms=lambda: 10_000
            )
            listing = await scan_manifests(world.cold)
            (folder,) = listing.folders
            written = [await eraser.write(one, 5) for one in eraser.groups(listing, folder)]
            await eraser.commit([one for one in written if one is not None], Erasure("me", "test"))
            done = await world.registrar().run_until_even()
            assert (done.faults, done.replaced) == ({}, 1)
            kept = [row for row in rows if row[2] not in (b"1/20", b"3/20")]
            assert len(kept) == len(rows) - 2
            check_rows(world, kept, parts)

    asyncio.run(check())
