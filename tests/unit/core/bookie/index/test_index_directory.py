"""Index files get their names when they are complete, and unneeded ones are removed."""

import pytest

from rhumbline.core.bookie.index.entry_index import MemoryIndex
from rhumbline.core.bookie.index.index_directory import IndexDirectory, index_path
from rhumbline.core.bookie.index.index_file import DataFile
from rhumbline.core.protocol.errors import DiskFullError
from rhumbline.tests.unit.core.bookie.index.test_index_file import ME, no_pause, some_rows
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk


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
