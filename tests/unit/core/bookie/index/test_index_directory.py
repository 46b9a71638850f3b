"""Index files get their names when they are complete, and unneeded ones are removed."""

import pytest

from rhumbline.core.bookie.index.entry_index import MemoryIndex
from rhumbline.core.bookie.index.index_directory import IndexDirectory, index_path
from rhumbline.core.bookie.index.index_file import DataFile
from rhumbline.core.protocol.errors import DiskFailedError, DiskFullError
from rhumbline.tests.unit.core.bookie.index.test_index_file import ME, no_pause, some_rows
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.recording_disk import RecordingDisk, RecordingFile


async def test_new_index_file_replaces_the_old_one_when_it_is_complete() -> None:
    disk = MemoryDisk()
    directory = IndexDirectory(disk, ME)
    await directory.prepare()
    file = DataFile(1, 7, 5, 1000)
    await directory.write(file, some_rows(10).columns(), no_pause)
    disk.room = 20
    with pytest.raises(DiskFullError):
        await directory.write(file, some_rows(900).columns(), no_pause)
    disk.room = None
    found = await directory.read(1, 7)
    assert found is not None
    assert found[0].row_count == 10
    assert [path for path in disk.files if path.startswith("index/")] == [index_path(7)]
    await directory.write(file, some_rows(900).columns(), no_pause)
    found = await directory.read(1, 7)
    assert found is not None
    assert found[0].row_count == 900


async def test_other_index_files_and_unfinished_ones_are_removed() -> None:
    disk = MemoryDisk()
    directory = IndexDirectory(disk, ME)
    assert await directory.numbers() == []
    await directory.prepare()
    for number in (3, 4, 5):
        await directory.write(DataFile(1, number, 5, 10), MemoryIndex().columns(), no_pause)
    disk.files[index_path(4) + ".new"] = bytearray(b"unfinished")
    disk.files["index/notes"] = bytearray(b"not ours")
    assert await directory.numbers() == [3, 4, 5]
    await directory.remove_others({3, 5})
    assert sorted(disk.files) == [index_path(3), index_path(5), "index/notes"]
    await directory.remove([3, 9])
    assert await directory.numbers() == [5]


async def test_index_file_gets_its_name_when_it_is_durable() -> None:
    disk = RecordingDisk()
    directory = IndexDirectory(disk, ME)
    await directory.prepare()
    assert disk.taken() == [("make_directory", "index"), ("sync_directory", "")]
    path = index_path(7)
    assert path == "index/0000000007.index"
    disk.files[path + ".new"] = bytearray(b"unfinished")
    file = DataFile(1, 7, 5, 1000)
    found, ledgers = await directory.write(file, some_rows(10).columns(), no_pause)
    assert [done for done in disk.taken() if done[0] != "read"] == [
        ("remove", path + ".new"),
        ("create", path + ".new", 0),
        ("write_durable", path + ".new", 0),
        ("close", path + ".new"),
        ("rename", path + ".new", path),
        ("sync_directory", "index"),
    ]
    assert found.data_file == file
    assert list(ledgers.ledgers) == list(some_rows(10).ledgers())
    assert disk.taken() == [], "the file stays open"
    disk.full_paths.add(path + ".new")
    with pytest.raises(DiskFullError):
        await directory.write(file, some_rows(10).columns(), no_pause)
    assert disk.taken("close", "remove", "rename") == [
        ("remove", path + ".new"),
        ("remove", path + ".new"),
        ("close", path + ".new"),
    ]


async def test_removals_are_durable() -> None:
    disk = RecordingDisk()
    directory = IndexDirectory(disk, ME)
    await directory.prepare()
    disk.files |= {index_path(number): bytearray() for number in (3, 4)}
    disk.files |= {"index/abc.index": bytearray(), "index/\u0664.index": bytearray()}
    disk.taken()
    assert await directory.numbers() == [3, 4]
    await directory.remove([3, 9])
    assert disk.taken()[-1] == ("sync_directory", "index")
    await directory.remove_others([4])
    assert disk.taken()[-1] == ("sync_directory", "index")
    assert sorted(disk.files) == [index_path(4)]
    await directory.remove_others([4])
    assert disk.taken() == [], "nothing was removed"


async def test_file_that_cannot_be_used_is_closed() -> None:
    disk = RecordingDisk()
    directory = IndexDirectory(disk, ME)
    await directory.prepare()
    disk.files[index_path(7)] = bytearray(b"damaged")
    assert await directory.read(1, 7) is None
    assert disk.taken()[-1] == ("close", index_path(7))

    class FailingFile(RecordingFile):
        async def size(self) -> int:
            raise DiskFailedError(f"{self.path}: I/O error")

    class FailingDisk(RecordingDisk):
        is_closed = False

        async def open(
            self, path: str, *, create: bool = False, allocate_bytes: int = 0
        ) -> RecordingFile:
            if self.is_closed:
                raise DiskFailedError(f"{path}: I/O error")
            return FailingFile(self, path)

    failing = FailingDisk()
    failing.files = disk.files
    assert await IndexDirectory(failing, ME).read(1, 7) is None
    assert failing.taken() == [("close", index_path(7))]
    failing.is_closed = True
    assert await IndexDirectory(failing, ME).read(1, 7) is None


async def test_index_file_that_is_damaged_when_it_is_read_back_is_an_error() -> None:
    class LyingDisk(RecordingDisk):
        async def rename(self, old: str, new: str) -> None:
            await super().rename(old, new)
            self.files[new][-1] ^= 1

    disk = LyingDisk()
    directory = IndexDirectory(disk, ME)
    await directory.prepare()
    with pytest.raises(DiskFailedError, match=f"^{index_path(7)}: "):
        await directory.write(DataFile(1, 7, 5, 10), some_rows(10).columns(), no_pause)
    assert disk.taken()[-1] == ("close", index_path(7))
