"""``PosixDisk`` keeps the Disk contract on real files, also under provoked faults."""

import asyncio
import errno
import fcntl
import os
import resource
import shutil
import threading
from pathlib import Path

import pytest

from rhumbline.core.protocol.errors import (
    ClosedError,
    DiskFailedError,
    DiskFullError,
    ForeignDataError,
    InvalidArgumentError,
)
from rhumbline.server import posix_disk
from rhumbline.server.posix_disk import PosixDisk
from rhumbline.tests.support.fakes.real_disk import with_disk


def is_open(path: Path) -> bool:
    links = [link for link in Path("/proc/self/fd").iterdir() if link.exists()]
    return str(path) in {os.readlink(link) for link in links}


def test_written_data_is_read_at_any_offset(tmp_path: Path) -> None:
    async def use(disk: PosixDisk) -> None:
        file = await disk.open("log", create=True)
        await file.write_durable(0, [b"ab", b"cdef"])
        await file.write(6, [b"gh"])
        await file.sync()
        assert await file.read(0, 100) == b"abcdefgh"
        assert await file.read(3, 2) == b"de"
        assert await file.read(8, 10) == b""
        assert await file.size() == 8
        await file.truncate(3)
        assert await file.read(0, 100) == b"abc"

    with_disk(tmp_path, use)


def test_thousands_of_buffers_are_written_in_order(tmp_path: Path) -> None:
    buffers = [bytes([number % 251]) * (number % 7 + 1) for number in range(5000)]

    async def use(disk: PosixDisk) -> None:
        file = await disk.open("log", create=True)
        await file.write_durable(10, buffers)
        assert await file.read(10, 10**6) == b"".join(buffers)
        assert await file.read(0, 10) == bytes(10)

    with_disk(tmp_path, use)


def test_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev

    def short(descriptor: int, buffers: list[bytes], offset: int) -> int:
        return real(descriptor, [b"".join(buffers)[:5]], offset)

    monkeypatch.setattr(os, "pwritev", short)

    async def use(disk: PosixDisk) -> None:
        file = await disk.open("log", create=True)
        await file.write(0, [b"abcd", b"efgh", b"ij"])
        assert await file.read(0, 20) == b"abcdefghij"

    with_disk(tmp_path, use)


def test_create_refuses_an_existing_file_and_open_refuses_a_missing_one(tmp_path: Path) -> None:
    async def use(disk: PosixDisk) -> None:
        await disk.make_directory("a/b")
        await disk.make_directory("a/b")
        await disk.open("a/b/log", create=True)
        with pytest.raises(DiskFailedError, match="exists"):
            await disk.open("a/b/log", create=True)
        with pytest.raises(FileNotFoundError):
            await disk.open("a/missing")
        with pytest.raises(FileNotFoundError):
            await disk.list("nothing")
        with pytest.raises(FileNotFoundError):
            await disk.remove("nothing")

    with_disk(tmp_path, use)


def test_names_are_listed_renamed_removed_and_synced(tmp_path: Path) -> None:
    async def use(disk: PosixDisk) -> None:
        for name in ("b", "a", "c"):
            await disk.open(name, create=True)
        await disk.rename("c", "a")
        await disk.remove("b")
        await disk.sync_directory("")
        assert await disk.list("") == ["a"]

    with_disk(tmp_path, use)


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "a//b", "./a", "a/", "a\0b"])
def test_path_that_could_leave_the_directory_is_refused(tmp_path: Path, path: str) -> None:
    async def use(disk: PosixDisk) -> None:
        with pytest.raises(InvalidArgumentError, match="stay inside"):
            await disk.open(path, create=True)

    with_disk(tmp_path / "root", use)


def test_link_to_an_outside_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "log").symlink_to(tmp_path / "secret")

    async def use(disk: PosixDisk) -> None:
        with pytest.raises(DiskFailedError):
            await disk.open("log")

    with_disk(tmp_path / "root", use)


def test_allocation_reserves_blocks_and_keeps_the_size(tmp_path: Path) -> None:
    async def use(disk: PosixDisk) -> None:
        file = await disk.open("log", create=True, allocate_bytes=1 << 20)
        assert await file.size() == 0
        assert (tmp_path / "log").stat().st_blocks * 512 >= 1 << 20

    with_disk(tmp_path, use)


def test_failed_allocation_leaves_no_file(tmp_path: Path) -> None:
    async def use(disk: PosixDisk) -> None:
        with pytest.raises(DiskFullError):
            await disk.open("log", create=True, allocate_bytes=1 << 60)
        assert await disk.list("") == []

    with_disk(tmp_path, use)


def test_full_disk_is_reported_as_such(tmp_path: Path) -> None:
    async def use(disk: PosixDisk) -> None:
        file = await disk.open("log", create=True)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        try:
            with pytest.raises(DiskFullError, match="log: File too large"):
                await file.write_durable(0, [bytes(10_000)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    with_disk(tmp_path, use)


def test_io_error_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(posix_disk, "open_aio", lambda: None)
    monkeypatch.setattr(os, "fdatasync", broken)

    async def use(disk: PosixDisk) -> None:
        file = await disk.open("log", create=True)
        with pytest.raises(DiskFailedError, match="log: Input/output error"):
            await file.write_durable(0, [b"x"])

    with_disk(tmp_path, use)


def test_identity_names_the_file_and_no_copy_of_it(tmp_path: Path) -> None:
    """File systems reuse the inode of a removed file at once, with another generation."""

    async def use(disk: PosixDisk) -> None:
        file = await disk.open("a", create=True)
        first = await disk.file_identity("a")
        await file.write_durable(0, [b"x"])
        await file.close()
        await disk.rename("a", "b")
        assert await disk.file_identity("b") == first
        with pytest.raises(FileNotFoundError):
            await disk.file_identity("a")
        shutil.copy2(tmp_path / "b", tmp_path / "a")
        assert await disk.file_identity("a") != first
        (tmp_path / "b").unlink()
        (tmp_path / "a").rename(tmp_path / "b")
        assert await disk.file_identity("b") != first

    with_disk(tmp_path, use)


def test_file_system_without_generations_identifies_files_by_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = errno.ENOTTY

    def refuse(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    async def use(disk: PosixDisk) -> None:
        nonlocal number
        await (await disk.open("a", create=True)).close()
        monkeypatch.setattr(fcntl, "ioctl", refuse)
        assert await disk.file_identity("a") == f"{(tmp_path / 'a').stat().st_ino:x}.0"
        number = errno.EIO
        with pytest.raises(DiskFailedError):
            await disk.file_identity("a")

    with_disk(tmp_path, use)


def test_directory_has_one_owner_at_a_time(tmp_path: Path) -> None:
    first = PosixDisk(tmp_path)
    with pytest.raises(ForeignDataError, match="in use by another process"):
        PosixDisk(tmp_path)
    first.close()
    first.close()
    PosixDisk(tmp_path).close()


def test_file_is_closed_only_when_no_thread_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(disk: PosixDisk) -> None:
        loop = asyncio.get_running_loop()
        entered, leave = asyncio.Event(), threading.Event()
        real = os.fdatasync

        def slow(descriptor: int) -> None:
            loop.call_soon_threadsafe(entered.set)
            assert leave.wait(10)
            real(descriptor)

        monkeypatch.setattr(os, "fdatasync", slow)
        file = await disk.open("log", create=True)
        writing = asyncio.ensure_future(file.write_durable(0, [b"x"]))
        await entered.wait()
        writing.cancel()
        await file.close()
        await file.close()
        assert is_open(log)
        leave.set()
        with pytest.raises(asyncio.CancelledError):
            await writing
        with pytest.raises(ClosedError):
            await file.read(0, 1)
        for _ in range(1000):
            if not is_open(log):
                return
            await asyncio.sleep(0.005)
        pytest.fail("the descriptor was never closed")

    log = tmp_path / "log"
    monkeypatch.setattr(posix_disk, "open_aio", lambda: None)
    with_disk(tmp_path, use)
    assert log.read_bytes() == b"x"


def test_capacity_and_free_space_are_those_of_the_device(tmp_path: Path) -> None:
    async def use(disk: PosixDisk) -> None:
        assert 0 < await disk.free_bytes() <= await disk.total_bytes()

    with_disk(tmp_path, use)
