"""Compacted logs are removed, and every entry can still be read."""

import asyncio
import tempfile
from pathlib import Path

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.index.lmdb_index import open_lmdb_index
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, entry, one_bookie
from rhumbline.tests.unit.core.bookie.index.test_entry_index import run_inline
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import PAYLOAD, SMALL, all_there, fill


@pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "lmdb"])
def test_compacted_logs_are_removed_and_every_entry_is_still_readable(is_durable: bool) -> None:
    async def main(directory: Path) -> None:
        async def open_index(bookie: BookieId) -> object:
            return await open_lmdb_index(directory, bookie, run_inline)

        disk = MemoryDisk()
        async with one_bookie(SMALL, disk) as (world, first, _):
            await first.aclose()
            opener = open_index if is_durable else None
            bookie = await Bookie.open(
                world.runtime,
                disk,
                SMALL,
                world.ledgers,
                world.directory,
                open_index=opener,  # type: ignore[arg-type]
            )
            await bookie.serve("127.0.0.1", 0)
            wire = await Wire.connect(bookie)
            await fill(wire, 200)
            await bookie.maintenance.step()
            after = bookie.statistics()
            assert after["maintenance_failures"] == 0
            assert after["sealed_logs"] == 0
            assert after["sorted_files"] >= 5
            assert len([p for p in disk.files if p.startswith("log/")]) == 1
            await all_there(wire, (1, 2, 3), 200)
            await wire.aclose()
            await bookie.aclose()
            again = await Bookie.open(
                world.runtime,
                disk,
                SMALL,
                world.ledgers,
                world.directory,
                open_index=opener,  # type: ignore[arg-type]
            )
            await again.serve("127.0.0.1", 0)
            assert again.storage.damages == []
            wire = await Wire.connect(again)
            await all_there(wire, (1, 2, 3), 200)
            assert await wire.add(entry(1, 200, PAYLOAD)) == Code.OK
            await wire.aclose()
            await again.aclose()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
