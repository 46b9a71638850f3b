"""Durable writes without a thread, and the fallback to threads."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from rhumbline.core.protocol.errors import DiskFailedError
from rhumbline.server import aio_sync, posix_disk
from rhumbline.server.aio_sync import AioSync, OnEnd, open_aio
from rhumbline.server.inline_write import InlineWritePolicy
from rhumbline.server.posix_disk import PosixDisk
from rhumbline.tests.support.fakes.real_disk import with_disk


def aio() -> AioSync:
    opened = open_aio()
    if opened is None:
        pytest.skip("this system has no Linux asynchronous I/O")
    return opened


async def test_sync_completes_in_the_loop_and_refuses_a_bad_descriptor(tmp_path: Path) -> None:
    syncs = aio()
    descriptor = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    os.write(descriptor, b"x")
    ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    assert syncs.submit(descriptor, lambda _, error: ended.set_result(error))
    assert await asyncio.wait_for(ended, 20) is None
    os.close(descriptor)
    assert not syncs.submit(descriptor, lambda _, error: None)
    syncs.close()
    assert not syncs.submit(descriptor, lambda _, error: None)
    syncs.close()


async def test_concurrent_syncs_complete_and_those_above_the_bound_are_refused(
    tmp_path: Path,
) -> None:
    syncs = aio()
    descriptor = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    errors: list[BaseException | None] = []
    all_ended = asyncio.Event()

    def end(_: object, error: BaseException | None) -> None:
        errors.append(error)
        if len(errors) == aio_sync._CONCURRENT_MAX:
            all_ended.set()

    taken = 0
    for _ in range(aio_sync._CONCURRENT_MAX + 1):
        os.write(descriptor, b"x" * 4096)
        taken += syncs.submit(descriptor, end)
    assert taken == aio_sync._CONCURRENT_MAX
    await asyncio.wait_for(all_ended.wait(), 20)
    assert set(errors) == {None}
    syncs.close()
    os.close(descriptor)


async def test_close_fails_the_syncs_in_progress(tmp_path: Path) -> None:
    syncs = aio()
    descriptor = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    os.write(descriptor, b"x" * 100_000)
    errors: list[BaseException | None] = []
    assert syncs.submit(descriptor, lambda _, error: errors.append(error))
    syncs.close()
    assert [type(error) for error in errors] == [OSError]
    os.close(descriptor)


def test_error_of_the_kernel_sync_is_raised_to_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aio().close()

    def failing(self: AioSync, descriptor: int, on_end: OnEnd) -> bool:
        error = OSError(errno.EIO, os.strerror(errno.EIO))
        asyncio.get_running_loop().call_soon(on_end, None, error)
        return True

    monkeypatch.setattr(AioSync, "submit", failing)

    async def use(disk: PosixDisk) -> None:
        file = await disk.open("log", create=True)
        with pytest.raises(DiskFailedError, match="log: Input/output error"):
            await file.write_durable(0, [b"x"])

    with_disk(tmp_path, use)


def test_file_is_closed_only_after_the_kernel_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aio().close()
    ends: list[OnEnd] = []

    def slow(self: AioSync, descriptor: int, on_end: OnEnd) -> bool:
        os.fstat(descriptor)
        ends.append(on_end)
        return True

    monkeypatch.setattr(AioSync, "submit", slow)

    async def use(disk: PosixDisk) -> None:
        file = await disk.open("log", create=True)
        before = len(os.listdir("/proc/self/fd"))
        writing = asyncio.ensure_future(file.write_durable(0, [b"x"]))
        await asyncio.sleep(0)
        [end] = ends
        writing.cancel()
        await file.close()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert len(os.listdir("/proc/self/fd")) == before
        end(None, None)
        for _ in range(2_000):
            if len(os.listdir("/proc/self/fd")) < before:
                return
            await asyncio.sleep(0.005)
        pytest.fail("the descriptor was never closed")

    with_disk(tmp_path, use)


@pytest.mark.parametrize("size", [1, 1_000, 1_000_000])
@pytest.mark.parametrize("has_aio", [True, False])
def test_durable_write_is_readable_with_and_without_aio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, has_aio: bool
) -> None:
    if not has_aio:
        monkeypatch.setattr(posix_disk, "open_aio", lambda: None)

    async def use(disk: PosixDisk) -> None:
        file = await disk.open("log", create=True, allocate_bytes=1 << 20)
        data = os.urandom(size)
        await file.write_durable(5, [data[:1], data[1:]])
        assert await file.read(5, size) == data
        assert disk.syncs.count == 1
        await file.close()

    with_disk(tmp_path, use)


def test_slow_write_moves_later_writes_to_threads_for_a_while() -> None:
    policy = InlineWritePolicy()
    assert policy.may_write_inline(1000, 10.0)
    assert not policy.may_write_inline(1 << 20, 10.0)
    policy.note(10.0, 10.001)
    assert policy.may_write_inline(1000, 10.001)
    policy.note(10.0, 10.5)
    assert not policy.may_write_inline(1000, 11.4)
    assert policy.may_write_inline(1000, 11.6)


def test_small_writes_stay_in_the_loop_while_large_ones_are_slow(tmp_path: Path) -> None:
    async def main(disk: PosixDisk) -> None:
        file = await disk.open("marker", create=True)
        disk._workers.inline.note(0.0, 1e9)
        used: list[object] = []
        disk._workers.writes.submit = lambda work, args, on_end: used.append(work)  # type: ignore[method-assign]
        await asyncio.wait_for(file.write(0, [b"x" * 512]), 20)
        assert used == []
        assert (tmp_path / "marker").read_bytes() == b"x" * 512

    with_disk(tmp_path, main)
