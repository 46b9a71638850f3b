"""The simulated disk keeps what was synced, and loses or tears the rest at random."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rhumbline.chaos.simulation.world.disk import PAGE_BYTES, SimDisk
from rhumbline.chaos.simulation.world.sim_world import Main, SimHost, SimWorld
from rhumbline.core.protocol.errors import DiskFailedError, DiskFullError, InvalidArgumentError

Work = Callable[[SimDisk], Coroutine[Any, Any, Any]]


def on_disk(
    seed: int,
    first: Work,
    then: Work | None = None,
    *,
    between: Callable[[SimHost], None] = SimHost.power_off,
) -> list[Any]:
    """Run ``first(disk)`` on a host, call ``between``, and run ``then(disk)`` in a new process."""
    with SimWorld(seed) as world:
        host = world.host("one", "east")
        results: list[Any] = []

        def main_of(work: Work) -> Main:
            async def main(host: SimHost) -> None:
                results.append(await work(host.disk("data")))
                await asyncio.Event().wait()

            return main

        async def scenario() -> None:
            host.start(main_of(first))
            await asyncio.sleep(10)
            if then is not None:
                between(host)
                await asyncio.sleep(1)
                host.start(main_of(then))
                await asyncio.sleep(10)

        world.run(scenario())
        return results


def test_synced_bytes_survive_power_cuts_and_unsynced_ones_may_be_torn() -> None:
    async def write(disk: SimDisk) -> None:
        file = await disk.open("log", create=True)
        await disk.sync_directory("")
        await file.write_durable(0, [b"safe" * 256])
        await file.write(1024, [b"gone" * 256])

    async def read(disk: SimDisk) -> object:
        file = await disk.open("log")
        return await file.read(0, 4096)

    ends = set()
    for seed in range(40):
        data = on_disk(seed, write, read)[1]
        assert data[:1024] == b"safe" * 256
        tail = data[1024:].rstrip(b"\0")
        ends.add("none" if not tail else "all" if tail == b"gone" * 256 else "torn")
    assert ends == {"none", "all", "torn"}


def test_data_of_a_killed_process_is_kept() -> None:
    async def write(disk: SimDisk) -> None:
        file = await disk.open("log", create=True)
        await file.write(0, [b"cached"])

    async def read(disk: SimDisk) -> object:
        return await (await disk.open("log")).read(0, 100)

    for seed in range(5):
        assert on_disk(seed, write, read, between=SimHost.kill)[1] == b"cached"


def test_names_are_durable_after_their_directory_was_synced_and_not_before() -> None:
    async def write(disk: SimDisk) -> None:
        for name in ("a", "b"):
            file = await disk.open(f"{name}.tmp", create=True)
            await file.write_durable(0, [name.encode()])
        await disk.rename("a.tmp", "a")
        await disk.sync_directory("")
        await disk.rename("b.tmp", "b")
        await disk.open("c", create=True)

    async def read(disk: SimDisk) -> object:
        return tuple(await disk.list(""))

    seen = {on_disk(seed, write, read)[1] for seed in range(40)}
    assert seen == {
        ("a", "b.tmp"),
        ("a", "b"),
        ("a", "b.tmp", "c"),
        ("a", "b", "c"),
    }


def test_a_lying_disk_loses_confirmed_data() -> None:
    async def write(disk: SimDisk) -> None:
        disk.image.health.is_lying = True
        file = await disk.open("log", create=True)
        await disk.sync_directory("")
        await file.write_durable(0, [b"x" * 100])

    async def read(disk: SimDisk) -> object:
        return await (await disk.open("log")).read(0, 100)

    assert any(on_disk(seed, write, read)[1] != b"x" * 100 for seed in range(10))


def test_a_failed_sync_is_reported_and_reads_still_return_the_bytes() -> None:
    async def work(disk: SimDisk) -> object:
        file = await disk.open("log", create=True)
        await disk.sync_directory("")
        await file.write(0, [b"doubtful"])
        disk.image.health.sync_failures = 1
        with pytest.raises(DiskFailedError):
            await file.sync()
        await file.sync()
        return await file.read(0, 100)

    async def read(disk: SimDisk) -> object:
        return await (await disk.open("log")).read(0, 100)

    runs = [on_disk(seed, work, read) for seed in range(20)]
    assert all(run[0] == b"doubtful" for run in runs)
    assert any(run[1] != b"doubtful" for run in runs)


def test_a_full_disk_refuses_writes_except_into_reserved_space() -> None:
    async def work(disk: SimDisk) -> object:
        disk.image.capacity_bytes = 10_000
        kept = await disk.open("kept", create=True, allocate_bytes=4000)
        other = await disk.open("other", create=True)
        with pytest.raises(DiskFullError):
            await other.write(0, [bytes(7000)])
        await other.truncate(6000)
        await kept.write_durable(0, [bytes(4000)])
        with pytest.raises(DiskFullError):
            await kept.write(4000, [bytes(1)])
        return await disk.free_bytes()

    assert on_disk(1, work)[0] == 0


def test_bit_rot_changes_one_bit() -> None:
    async def work(disk: SimDisk) -> object:
        file = await disk.open("log", create=True)
        await file.write_durable(0, [bytes(1000)])
        assert disk.image.rot() is not None
        data = await file.read(0, 1000)
        return sum(byte.bit_count() for byte in data)

    assert on_disk(1, work)[0] == 1


def test_paths_outside_of_the_root_are_refused() -> None:
    async def work(disk: SimDisk) -> object:
        for bad in ("../x", "/x", "a//b", "a/./b"):
            with pytest.raises(InvalidArgumentError):
                await disk.open(bad, create=True)
        with pytest.raises(FileNotFoundError):
            await disk.open("missing")
        with pytest.raises(FileNotFoundError):
            await disk.open("no-directory/x", create=True)
        await disk.make_directory("deep/er")
        file = await disk.open("deep/er/x", create=True)
        with pytest.raises(DiskFailedError):
            await disk.open("deep/er/x", create=True)
        return file.path, await disk.list("deep"), await disk.list("deep/er")

    assert on_disk(1, work)[0] == ("deep/er/x", ["er"], ["x"])


def test_a_wiped_machine_is_empty() -> None:
    async def write(disk: SimDisk) -> None:
        file = await disk.open("log", create=True)
        await disk.sync_directory("")
        await file.write_durable(0, [b"x"])

    async def read(disk: SimDisk) -> object:
        return await disk.list("")

    assert on_disk(1, write, read, between=SimHost.wipe)[1] == []


# --- damage ---------------------------------------------------------------------------------------


def files(disk: SimDisk) -> dict[str, bytes]:
    return {path: bytes(inode.cached) for path, inode in disk.image.names.items()}


async def write_many(disk: SimDisk) -> SimDisk:
    """Write twenty logs, one index file and an empty one, each of three pages, durably."""
    await disk.make_directory("log")
    for path in (*(f"log/{number:04d}.log" for number in range(20)), "index"):
        file = await disk.open(path, create=True)
        await file.write_durable(0, [b"x" * 3 * PAGE_BYTES])
    await disk.open("empty", create=True)
    for directory in ("", "log"):
        await disk.sync_directory(directory)
    return disk


def test_rare_kinds_of_files_are_picked_as_often_as_common_ones() -> None:
    [disk] = on_disk(1, write_many)
    picked = [disk.image.pick_file("data/") for _ in range(400)]
    assert 150 < picked.count("data/index") < 250
    assert len(set(picked)) == 21, "every file that is not empty is picked"
    assert disk.image.pick_file("elsewhere/") is None


def test_damage_is_durable_and_concerns_one_file_only() -> None:
    [disk] = on_disk(1, write_many)
    image = disk.image
    for damage in (image.rot_file, image.truncate_file, image.zero_page, image.lose_file):
        before = files(disk)
        damage("data/index" if damage != image.lose_file else "data/log/0003.log")
        changed = {path for path in before if files(disk).get(path) != before[path]}
        assert len(changed) == 1, damage
        after = files(disk)
        image.lose_power()
        assert files(disk) == after


def test_bits_flip_in_one_or_two_of_the_named_bytes_only() -> None:
    [disk] = on_disk(1, write_many)
    counts = set()
    for _ in range(40):
        before = files(disk)["data/index"]
        disk.image.rot_bytes("data/index", (3, 5, 8))
        after = files(disk)["data/index"]
        changed = {at for at in range(len(before)) if before[at] != after[at]}
        assert changed <= {3, 5, 8}
        counts.add(len(changed))
        disk.image.lose_power()
        assert files(disk)["data/index"] == after
    assert counts == {1, 2}


def test_page_of_zeros_is_aligned_and_keeps_the_length() -> None:
    [disk] = on_disk(1, write_many)
    disk.image.zero_page("data/index")
    content = files(disk)["data/index"]
    assert len(content) == 3 * PAGE_BYTES
    assert sorted(set(content.split(b"x"))) == [b"", bytes(PAGE_BYTES)]


def test_lost_file_stays_readable_for_a_process_that_has_it_open() -> None:
    async def read_a_lost_file(disk: SimDisk) -> bytes:
        await write_many(disk)
        file = await disk.open("index")
        disk.image.lose_file("data/index")
        with pytest.raises(FileNotFoundError):
            await disk.open("index")
        return await file.read(0, 4)

    assert on_disk(1, read_a_lost_file) == [b"xxxx"]


def test_restored_disk_holds_exactly_what_was_backed_up() -> None:
    [disk] = on_disk(1, write_many)
    before, backup = files(disk), disk.image.back_up()
    disk.image.lose_file("data/log/0003.log")
    disk.image.rot_file("data/index")
    disk.image.restore(backup)
    assert files(disk) == before
    disk.image.rot_file("data/index")
    disk.image.restore(backup)
    disk.image.lose_power()
    assert files(disk) == before, "a back-up can be restored again, and is durable"


def test_a_lost_directory_fails_every_call_and_the_rest_of_the_disk_goes_on() -> None:
    with SimWorld(1) as world:
        host = world.host("one", "east")
        results: list[str] = []

        async def main(host: SimHost) -> None:
            data, other = host.disk("data-0"), host.disk("data-1")
            file = await data.open("log", create=True)
            kept = await other.open("log", create=True)
            await kept.write_durable(0, [b"kept"])
            host.image.lose_root("data-0")
            for call in (file.write_durable(0, [b"x"]), file.read(0, 1), data.list("")):
                with pytest.raises(DiskFailedError, match="Input/output error"):
                    await call
            results.append((await kept.read(0, 4)).decode())
            await asyncio.Event().wait()

        async def scenario() -> None:
            host.start(main)
            await asyncio.sleep(10)
            assert "data-0/log" not in host.image.names
            assert host.image.lost_roots == {"data-0": None}
            host.image.format()
            assert not host.image.lost_roots, "the disks were replaced"

        world.run(scenario())
        assert results == ["kept"]
