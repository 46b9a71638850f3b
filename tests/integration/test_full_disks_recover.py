"""Processes on file systems that are really full: nothing is lost, and they recover alone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from rhumbline.backends.open_store import open_store
from rhumbline.coldstore.archive import segment_archiver as archive_module
from rhumbline.coldstore.archive.catalog import list_manifests
from rhumbline.coldstore.archive.segment_archiver import SegmentArchiver
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.coldstore.proof.verify import verify_segment
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.identity import format_storage
from rhumbline.core.bookie.maintenance.disk_reserve import reserve_path
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.protocol.errors import (
    DiskFullError,
    IndeterminateError,
    MetadataUnavailableError,
    NoNodeError,
)
from rhumbline.core.wire.v2 import Code
from rhumbline.server.posix_disk import PosixDisk
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.support.processes.background_cluster import STREAM, BackgroundCluster
from rhumbline.tests.support.processes.small_disk import fill_disk, free_disk, small_disk
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, World, entry

MIB = 1 << 20
DISK_BYTES = 32 * MIB
LEDGERS = range(1, 9)
PAYLOAD = bytes(60_000)
CONFIG = BookieConfig(
    maintenance_ms=100,
    collect_ms=2_000,
    space_check_ms=20,
    tail_cache_bytes=0,
    boot_id="boot-1",
)


class FullBookie:
    """A bookie on a small disk, with the number of acknowledged entries of each ledger."""

    def __init__(self, world: World, directory: Path, config: BookieConfig) -> None:
        self.world = world
        self.directory = directory
        self.config = config
        self.acknowledged = dict.fromkeys(LEDGERS, 0)
        self.disk: PosixDisk | None = None

    async def start(self) -> Bookie:
        self.disk = PosixDisk(self.directory)
        bookie = await Bookie.open(
            self.world.runtime, self.disk, self.config, self.world.ledgers, self.world.directory
        )
        await bookie.serve("127.0.0.1", 0)
        return bookie

    async def stop(self, bookie: Bookie) -> None:
        await bookie.aclose()
        assert self.disk is not None
        self.disk.close()

    async def fill(self, wire: Wire) -> None:
        """Add entries to all ledgers in turn until the bookie refuses them."""
        while True:
            for ledger_id in LEDGERS:
                code = await wire.add(entry(ledger_id, self.acknowledged[ledger_id], PAYLOAD))
                if code != Code.OK:
                    assert code == Code.READ_ONLY
                    return
                self.acknowledged[ledger_id] += 1

    async def add_when_writable(self, wire: Wire, ledger_id: int) -> None:
        """Add an entry as soon as the bookie takes it.

        On a disk this small, compaction and the refilled reserve fill it again for moments.
        """
        data = entry(ledger_id, self.acknowledged[ledger_id], PAYLOAD)
        async with asyncio.timeout(20):
            while (code := await wire.add(data)) != Code.OK:
                assert code == Code.READ_ONLY
                await asyncio.sleep(0.01)
        self.acknowledged[ledger_id] += 1

    async def delete(self, ledgers: list[int]) -> None:
        for ledger_id in ledgers:
            await self.world.ledgers.delete(ledger_id)
            del self.acknowledged[ledger_id]

    async def check(self, wire: Wire) -> None:
        """Assert that every acknowledged entry of the ledgers that are left is there."""
        for ledger_id, count in self.acknowledged.items():
            for number in range(count):
                expected = (Code.OK, entry(ledger_id, number, PAYLOAD))
                assert await wire.read(ledger_id, number) == expected, (ledger_id, number)


@asynccontextmanager
async def full_bookie(
    directory: Path, config: BookieConfig = CONFIG
) -> AsyncIterator[tuple[FullBookie, Bookie, Wire]]:
    """Yield a bookie that has filled its disk."""
    world = World()
    await world.start()
    disk = PosixDisk(directory)
    bookie_id = await format_storage(
        disk, world.runtime, "b1", "east", "r1", world.instance_id, world.directory
    )
    disk.close()
    full = FullBookie(world, directory, config)
    bookie = await full.start()
    for ledger_id in LEDGERS:
        await world.make_ledger(ledger_id, bookie_id)
    wire = await Wire.connect(bookie)
    try:
        await full.fill(wire)
        yield full, bookie, wire
    finally:
        await wire.aclose()
        await full.stop(bookie)
        await world.aclose()


async def until(is_reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_reached():  # noqa: ASYNC110 - observed from outside
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("kept", [[], [3], [1, 2, 3, 4]], ids=["nothing", "one", "half"])
async def test_a_full_bookie_recovers_after_streams_were_deleted(
    kept: list[int], tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as directory, recorded_log() as log:
        async with full_bookie(directory) as (full, bookie, wire):

            def is_exhausted() -> bool:
                if not bookie.is_read_only:
                    fill_disk(directory)  # others use what is left
                return bool(bookie.statistics()["space_exhausted"])

            await until(is_exhausted)
            assert (directory / reserve_path(0)).exists()
            await full.check(wire)
            await full.delete([ledger_id for ledger_id in LEDGERS if ledger_id not in kept])
            await until(lambda: not bookie.is_read_only)
            await full.check(wire)
            await until(lambda: bookie.statistics()["maintenance_reserve_missing_bytes"] == 0)
            await until(lambda: bookie.statistics()["space"] == "enough")
            if kept:
                async with aclosing(await Wire.connect(bookie)) as again:
                    await full.add_when_writable(again, kept[0])
            await full.stop(bookie)
            bookie = await full.start()
            assert not bookie.limbo_reason
            async with aclosing(await Wire.connect(bookie)) as again:
                await full.check(again)
            await full.stop(bookie)
    assert "space exhausted" in log.events()
    assert "space recovered" in log.events()
    (lowered,) = {str(fields) for fields in log.fields("space settings lowered")}
    assert "read_only_below_bytes 1073741824 -> " in lowered


async def test_a_full_metadata_file_refuses_writes_and_accepts_them_when_there_is_space(
    tmp_path: Path,
) -> None:
    """The refused writes leave nothing behind, and nothing that was confirmed is lost."""
    with small_disk(tmp_path / "disk", 4 * MIB) as directory:
        store = await open_store(f"sqlite://{directory}/metadata.db")
        fill_disk(directory, 2 * MIB)
        confirmed = 0
        with pytest.raises((MetadataUnavailableError, IndeterminateError), match="full") as raised:
            while True:
                await store.create(f"/node-{confirmed}", bytes(20_000))
                confirmed += 1
        is_known = not isinstance(raised.value, IndeterminateError)
        assert confirmed > 20
        for number in range(confirmed):
            assert len((await store.get(f"/node-{number}")).data) == 20_000
        if is_known:
            with pytest.raises(NoNodeError):
                await store.get(f"/node-{confirmed}")
        with pytest.raises((MetadataUnavailableError, IndeterminateError), match="full"):
            await store.create("/another", bytes(20_000))
        free_disk(directory)
        assert await store.create("/later", b"x")
        await store.close()
        again = await open_store(f"sqlite://{directory}/metadata.db")
        assert (await again.get("/later")).data == b"x"
        assert (await again.get("/node-9")).data == bytes(20_000)
        await again.close()


def test_an_archiver_on_a_full_disk_leaves_a_whole_archive_or_none_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = ArchiveConfig(part_bytes=1, row_group_bytes=6_000)
    monkeypatch.setattr(archive_module, "DEFAULTS", small)
    (tmp_path / "cluster").mkdir()
    with (
        BackgroundCluster(tmp_path / "cluster") as cluster,
        small_disk(tmp_path / "disk", MIB) as directory,
    ):
        cluster.write_segments(1)
        client = cluster.client
        streams = StreamStore(client.store, "test")
        failures = 0

        async def archive() -> None:
            nonlocal failures
            for left_bytes in range(0, MIB, 4_096):
                store = LocalColdStore(directory)
                archiver = SegmentArchiver(client.runtime, store, client.ledgers, streams)
                free_disk(directory)
                fill_disk(directory, left_bytes)
                try:
                    whole = await archiver.archive(STREAM, 1)
                except DiskFullError:
                    failures += 1
                    free_disk(directory)
                    for left in await list_manifests(store):
                        await verify_segment(store, left)  # only its tip is missing
                    await store.close()
                    continue
                await verify_segment(store, whole)
                assert len(await store.list("test")) == 2 + len(whole.parts), "leftovers"
                await store.close()
                return

        cluster.run(asyncio.wait_for(archive(), 60), timeout_s=70)
        assert failures > 1, "without the manifest, and without the part"
