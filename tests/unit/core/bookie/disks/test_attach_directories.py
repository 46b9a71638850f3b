"""Data directories are told apart by cookies: a missing one is never taken for an empty one."""

from random import Random

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.disks.attach_directories import attach_configured, attach_recorded
from rhumbline.core.bookie.disks.directory_records import COOKIE_FILE, read_cookie
from rhumbline.core.bookie.disks.spread_disk import SpreadDisk
from rhumbline.core.bookie.identity import IDENTITY_FILE, Identity, read_identity, write_identity
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import ForeignDataError, InvalidArgumentError
from rhumbline.core.runtime.disk import Disk
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

ME = Identity(BookieId("b1@00c0ffee"), "cluster", Region("eu"), Region("r1"))


class Machine:
    """The directories of a machine by path; some of them may be not mounted."""

    def __init__(self) -> None:
        self.main = MemoryDisk()
        self.mounted = {path: MemoryDisk() for path in ("/d1", "/d2")}

    async def attach(self, *paths: str, lost: tuple[str, ...] = ()) -> Disk:
        if IDENTITY_FILE not in self.main.files:
            await write_identity(self.main, ME)
        config = BookieConfig(data_dirs=paths, lost_data_dirs=lost)
        return await attach_configured(self.main, config, self.mounted.__getitem__, Random(1))


async def test_a_bookie_without_data_directories_keeps_its_disk_and_format() -> None:
    machine = Machine()
    assert await machine.attach() is machine.main
    assert (await read_identity(machine.main)).version == 1
    assert await attach_recorded(machine.main, machine.mounted.__getitem__) is machine.main


async def test_new_directories_are_recorded_and_found_again() -> None:
    machine = Machine()
    with recorded_log() as log:
        disk = await machine.attach("/d1", "/d2")
    assert isinstance(disk, SpreadDisk)
    assert [one.path for one in disk.directories] == ["/d1", "/d2"]
    assert log.events() == ["data directory added", "data directory added"]
    assert (await read_identity(machine.main)).version == 2
    cookies = [await read_cookie(one) for one in machine.mounted.values()]
    assert cookies[0] != cookies[1]
    again = await machine.attach("/d2", "/d1")
    assert isinstance(again, SpreadDisk)
    assert [one.cookie for one in again.directories] == cookies[::-1]
    found = await attach_recorded(machine.main, machine.mounted.__getitem__)
    assert isinstance(found, SpreadDisk)
    assert len(found.directories) == 2


async def test_a_directory_that_is_not_mounted_is_not_taken_for_an_empty_one() -> None:
    machine = Machine()
    await machine.attach("/d1")
    machine.mounted["/d1"] = MemoryDisk()
    with pytest.raises(ForeignDataError, match=r"/d1 is not the data directory .*: mount"):
        await machine.attach("/d1")
    with pytest.raises(ForeignDataError, match="mount its disk"):
        await attach_recorded(machine.main, machine.mounted.__getitem__)
    assert COOKIE_FILE not in machine.mounted["/d1"].files


async def test_exchanged_directories_are_refused() -> None:
    machine = Machine()
    await machine.attach("/d1", "/d2")
    machine.mounted = {"/d1": machine.mounted["/d2"], "/d2": machine.mounted["/d1"]}
    with pytest.raises(ForeignDataError, match="/d1 is not the data directory"):
        await machine.attach("/d1", "/d2")


async def test_a_recorded_directory_is_dropped_only_if_it_is_declared_lost() -> None:
    machine = Machine()
    await machine.attach("/d1", "/d2")
    with pytest.raises(ForeignDataError, match="/d2 is a data directory of this bookie, but"):
        await machine.attach("/d1")
    with pytest.raises(InvalidArgumentError, match="/d2 is in data_dirs and in lost_data_dirs"):
        await machine.attach("/d1", "/d2", lost=("/d2",))
    with recorded_log() as log:
        disk = await machine.attach("/d1", lost=("/d2",))
        await machine.attach("/d1", lost=("/d2",))
    assert isinstance(disk, SpreadDisk)
    assert [one.path for one in disk.directories] == ["/d1"]
    assert log.events() == ["data directory dropped"]


async def test_a_directory_with_data_is_not_added() -> None:
    machine = Machine()
    machine.mounted["/d1"].files["photo"] = bytearray(b"x")
    with pytest.raises(ForeignDataError, match=r"/d1 is not empty: it holds data$"):
        await machine.attach("/d1")
    other = Machine()
    await write_identity(other.main, Identity(BookieId("b2@00c0ffee"), *_rest()))
    await other.attach("/d2")
    machine.mounted["/d2"] = other.mounted["/d2"]
    with pytest.raises(ForeignDataError, match="it holds data of bookie b2@00c0ffee"):
        await machine.attach("/d2")


async def test_an_interrupted_addition_can_be_repeated() -> None:
    machine = Machine()
    await machine.attach("/d1")
    cookie = machine.mounted["/d1"]
    machine.main = MemoryDisk()  # the record was not written
    await machine.attach("/d1")
    assert machine.mounted["/d1"] is cookie


def _rest() -> tuple[str, Region, Region]:
    return ME.instance_id, ME.region, ME.rack
