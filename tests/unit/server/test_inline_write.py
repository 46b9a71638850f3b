"""Durable writes without a thread: what the kernel answers counts, and threads do the rest."""

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
        pytest.skip("this system has no asynchronous I/O of Linux")
    return opened


def test_a_sync_ends_in_the_loop_and_a_bad_descriptor_is_left_to_a_thread(tmp_path: Path) -> None:
    async def main() -> None:
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

    asyncio.run(main())


def test_many_at_once_all_end_and_what_is_above_the_bound_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        syncs = aio()
        descriptor = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
        errors: list[BaseException | None] = []
        all_ended = asyncio.Event()

        def end(_: object, error: BaseException | None) -> None:
            errors.append(error)
            if len(errors) == aio_sync._AT_ONCE_MAX:
                all_ended.set()

        taken = 0
        for _ in range(aio_sync._AT_ONCE_MAX + 1):
            os.write(descriptor, b"x" * 4096)
            taken += syncs.submit(descriptor, end)
        assert taken == aio_sync._AT_ONCE_MAX
        await asyncio.wait_for(all_ended.wait(), 20)
        assert set(errors) == {None}
        syncs.close()
        os.close(descriptor)

    asyncio.run(main())


def test_closing_tells_whoever_waits(tmp_path: Path) -> None:
    async def main() -> None:
        syncs = aio()
        descriptor = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
        os.write(descriptor, b"x" * 100_000)
        errors: list[BaseException | None] = []
        assert syncs.submit(descriptor, lambda _, error: errors.append(error))
        syncs.close()
        assert [type(error) for error in errors] == [OSError]
        os.close(descriptor)

    asyncio.run(main())


def test_an_error_of_the_kernels_sync_is_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aio().close()

    def failing(self: AioSync, descriptor: int, on_end: OnEnd) -> bool:
        error = OSError(errno.EIO, os.strerror(errno.EIO))
        asyncio.get_running_loop().call_soon(on_end, None, error)
        return True

    monkeypatch.setattr(AioSync, "submit", failing)

    async def story(disk: PosixDisk) -> None:
        file = await disk.open("log", create=True)
        with pytest.raises(DiskFailedError, match="log: Input/output error"):
            await file.write_durable(0, [b"x"])

    with_disk(tmp_path, story)


def test_a_file_is_closed_only_when_the_kernel_has_synced_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aio().close()
    ends: list[OnEnd] = []

    def slow(self: AioSync, descriptor: int, on_end: OnEnd) -> bool:
        os.fstat(descriptor)
        ends.append(on_end)
        return True

    monkeypatch.setattr(AioSync, "submit", slow)

    async def story(disk: PosixDisk) -> None:
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

    with_disk(tmp_path, story)


@pytest.mark.parametrize("size", [1, 1_000, 1_000_000])
@pytest.mark.parametrize("has_aio", [True, False])
def test_what_was_written_durably_is_there_whoever_synced_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, has_aio: bool
) -> None:
    if not has_aio:
        monkeypatch.setattr(posix_disk, "open_aio", lambda: None)

    async def story(disk: PosixDisk) -> None:
        file = await disk.open("log", create=True, allocate_bytes=1 << 20)
        data = os.urandom(size)
        await file.write_durable(5, [data[:1], data[1:]])
        assert await file.read(5, size) == data
        assert disk.syncs.count == 1
        await file.close()

    with_disk(tmp_path, story)


def test_one_slow_write_sends_the_next_ones_to_threads_for_a_while() -> None:
    pace = InlineWritePolicy()
    assert pace.may_write_here(1000, 10.0)
    assert not pace.may_write_here(1 << 20, 10.0)
    pace.note(10.0, 10.001)
    assert pace.may_write_here(1000, 10.001)
    pace.note(10.0, 10.5)
    assert not pace.may_write_here(1000, 11.4)
    assert pace.may_write_here(1000, 11.6)
