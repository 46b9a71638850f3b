"""Offline verification finds damage in every file and changes nothing."""

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.maintenance.offline_verify import verify_storage
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk


async def test_verification_detects_damage_in_every_file_and_changes_nothing() -> None:
    disk = MemoryDisk()
    config = BookieConfig(log_file_bytes=1 << 16, sealed_logs_kept=1)
    async with one_bookie(config, disk) as (_, bookie, wire):
        for number in range(200):
            assert await wire.add(entry(1, number, bytes(900))) == Code.OK
        assert await wire.fence(2) == Code.NO_ENTRY
        await bookie.maintenance.step()
        assert bookie.storage.sorted
        image = disk.copy()
    before = {path: bytes(content) for path, content in image.files.items()}
    summary = await verify_storage(image)
    assert summary.damages == ()
    assert (summary.entry_count, len(summary.ledgers)) == (200, 2)
    assert summary.ledgers[1].is_fenced
    assert {path: bytes(content) for path, content in image.files.items()} == before
    paths = [path for path in image.files if "/" in path]
    assert {path.partition("/")[0] for path in paths} == {"index", "log", "sorted"}
    for path in paths:
        corrupt = image.copy()
        corrupt.files[path][len(corrupt.files[path]) // 3] ^= 2
        damages = (await verify_storage(corrupt)).damages
        is_newest = path == max(p for p in image.files if p.startswith("log/"))
        assert damages or is_newest, path
