"""A storage with very many ledgers, and the checkpoint of an orderly shutdown."""

import asyncio
import tempfile
from pathlib import Path
from random import Random

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.index.lmdb_index import open_lmdb_index
from rhumbline.core.bookie.index.tiered_index import MemoryIndexStore
from rhumbline.core.bookie.log.commit_group import Outbox
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, FixedClock, Wire, entry, one_bookie
from rhumbline.tests.unit.core.bookie.index.test_entry_index import run_inline
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import SMALL, log_paths

ME = BookieId("b1@0000abcd")


class CountingSink:
    """Counts the delivered responses."""

    def __init__(self) -> None:
        self.count = 0

    def deliver(self, outbox: Outbox) -> None:
        self.count += len(outbox.responses)

    def reject(self, outbox: Outbox, error: RhumblineError) -> None:
        raise error


def test_storage_holds_a_hundred_thousand_ledgers() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        runtime = Runtime(FixedClock(), Random(1))
        config = BookieConfig(tail_cache_bytes=1 << 20)
        storage = Storage(runtime, disk, config, ME, MemoryIndexStore())
        await storage.open()
        sink = CountingSink()
        count = 100_000
        for ledger_id in range(count):
            ledger = storage.create_ledger(ledger_id, KEY, is_proven=True)
            storage.add(ledger, entry(ledger_id, 0), sink, b"")
            if ledger_id % 1000 == 0:
                await asyncio.sleep(0)
        storage.fence(storage.states.ledgers[count - 1], lambda error: None)
        await storage.aclose()
        assert sink.count == count
        again = Storage(runtime, disk, config, ME, MemoryIndexStore())
        await again.open()
        assert len(again.states.ledgers) == count
        assert again.states.ledgers[count - 1].is_fenced
        location = again.find(count - 1, 0)
        assert await again.read(count - 1, 0, location) == entry(count - 1, 0)
        await again.aclose()

    asyncio.run(main())


def test_orderly_shutdown_leaves_a_short_log_for_the_next_start() -> None:
    async def main(directory: Path) -> None:
        async def open_index(bookie: BookieId) -> object:
            return await open_lmdb_index(directory, bookie, run_inline)

        async def start() -> Bookie:
            bookie = await Bookie.open(
                world.runtime,
                disk,
                BookieConfig(maintenance_ms=3_600_000),
                world.ledgers,
                world.directory,
                open_index=open_index,  # type: ignore[arg-type]
            )
            await bookie.serve("127.0.0.1", 0)
            return bookie

        disk = MemoryDisk()
        large = bytes(200_000)
        async with one_bookie(SMALL, disk) as (world, first, _):
            await first.aclose()
            for start_count in range(3):
                bookie = await start()
                wire = await Wire.connect(bookie)
                before = len(disk.files)
                for number in range(40 * start_count):
                    assert (await wire.read(1, number))[1] == entry(1, number, large)
                for number in range(40 * start_count, 40 * start_count + 40):
                    assert await wire.add(entry(1, number, large)) == Code.OK
                assert await wire.fence(2 + start_count) == Code.NO_ENTRY
                await wire.aclose()
                await bookie.aclose()
                assert len(disk.files) == before + 1
                assert len(disk.files[max(log_paths(disk))]) < 10_000
            bookie = await start()
            wire = await Wire.connect(bookie)
            assert [await wire.add(entry(number, 0)) for number in (2, 3, 4)] == [Code.FENCED] * 3
            await wire.aclose()
            await bookie.aclose()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
