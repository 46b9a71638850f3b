"""Verify compares tables with their archives, and finds whatever changed in their metadata."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.iceberg import registrar as registrar_module
from rhumbline.coldstore.iceberg.check_tables import check_tables
from rhumbline.tests.unit.coldstore.iceberg.table_world import TableWorld
from rhumbline.tests.unit.spark.spark_world import archive_on_disk


async def faults(world: TableWorld) -> list[str]:
    """Return the faults of all tables."""
    listing = await scan_manifests(world.cold)
    found = await check_tables(world.cold, world.tables, listing.folders)
    return [str(error) for error in found.values()]


def run(root: Path, check: Callable[[TableWorld], Any]) -> None:
    """Run ``check`` with an archive of four segments."""
    archive_on_disk(root / "cold")

    async def opened() -> None:
        world = TableWorld(root / "cold")
        try:
            await check(world)
        finally:
            await world.close()

    asyncio.run(opened())


def test_a_table_that_equals_its_archive_or_is_behind_has_no_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(world: TableWorld) -> None:
        assert await faults(world) == []
        with monkeypatch.context() as patch:
            patch.setattr(registrar_module, "STEPS_PER_PASS_MAX", 2)
            await world.registrar().run_once()
        assert await faults(world) == []
        await world.registrar().run_once()
        assert await faults(world) == []
        (folder,) = (await scan_manifests(world.cold)).folders
        archives = ColdArchives(world.cold, "test")
        await archives.expire("s", folder.stream_id, below=3, completed_by_ms=2**60)
        assert await faults(world) == []
        await world.registrar().run_once()
        assert await faults(world) == []

    run(tmp_path, check)


def _remove_records(table: Table) -> None:
    table.delete("lssn = 2")


def _add_records_again(table: Table) -> None:
    table.append(table.scan("lssn = 2").to_arrow())


def _add_column(table: Table) -> None:
    from pyiceberg.types import LongType

    with table.update_schema() as update:
        update.add_column("other", LongType())


def _set(name: str, value: str) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        with table.transaction() as transaction:
            transaction.set_properties({name: value})

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_remove_records, "it lacks the file"),
        (_add_records_again, "which the archive does not have"),
        (_add_column, "the schema is"),
        (_set("rhumbline.stream-identity", "f" * 32), "stream-identity is 'ffff"),
        (_set("rhumbline.last-link", "f" * 64), "segment 4 has another link"),
        (_set("rhumbline.last-lssn", "5"), "it has segment 5, the archive does not"),
        (_set("rhumbline.first-lssn", "2"), "it begins with segment 2, the archive with 1"),
        (_set("gc.enabled", "true"), "gc.enabled is 'true', not 'false'"),
    ],
)
def test_a_table_that_differs(
    tmp_path: Path, change: Callable[[Table], None], expected: str
) -> None:
    async def check(world: TableWorld) -> None:
        await world.registrar().run_once()
        change(world.table())
        (fault,) = await faults(world)
        assert expected in fault
        assert fault.startswith("table of test/s/")

    run(tmp_path, check)
