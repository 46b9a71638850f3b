"""A restart after a crash at any point finds everything that was promised before."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rhumbline.core.bookie.ledger_records import LedgerRecord, boot_record
from rhumbline.core.bookie.log.commit_group import OnDurable
from rhumbline.core.bookie.log.sorted_file import SortedFileWriter
from rhumbline.core.bookie.log.write_log import WriteLog
from rhumbline.core.bookie.storage import Storage
from rhumbline.tests.crash.recording_disk import RecordingDisk, RecordingFile
from rhumbline.tests.crash.workload import Report, Workload, walk


def crash_everywhere(seed: int = 1, *, stop_at_first: bool = False) -> Report:
    async def main() -> Report:
        disk = RecordingDisk()
        await Workload(disk, seed).run()
        return await walk(disk.events, seed, stop_at_first=stop_at_first)

    return asyncio.run(main())


def test_every_promise_holds_after_every_crash() -> None:
    report = crash_everywhere()
    print(f"{report.cut_points} cut points, {report.image_count} images")
    assert report.violations == {}
    assert report.image_count > 2_000


def some_syncs_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every seventh fdatasync does nothing."""
    count = 0

    async def write_durable(self: RecordingFile, offset: int, buffers: Any) -> None:  # noqa: ANN401
        nonlocal count
        count += 1
        await self.write(offset, buffers)
        if count % 7:
            await self.sync()

    monkeypatch.setattr(RecordingFile, "write_durable", write_durable)


def index_before_data_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index points to a sorted file that was never synced."""

    async def sync(self: RecordingFile) -> None:
        if not self.path.startswith("sorted/"):
            await original(self)

    original = RecordingFile.sync
    monkeypatch.setattr(RecordingFile, "sync", sync)


def file_used_before_its_name_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sorted file is used before its name is durable."""

    async def sync_directory(self: RecordingDisk, path: str) -> None:
        if path != "sorted":
            await original(self, path)

    original = RecordingDisk.sync_directory
    monkeypatch.setattr(RecordingDisk, "sync_directory", sync_directory)


def fence_in_memory_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fence is kept in memory only."""

    def fence(self: Storage, ledger: LedgerRecord, on_durable: OnDurable) -> None:
        on_durable(None)

    monkeypatch.setattr(Storage, "fence", fence)


def log_without_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new log does not begin with the state of the older logs, which compaction removes."""

    def snapshot(self: Storage) -> Iterator[bytes]:
        yield boot_record(self.states.boot_id)
        yield self.states.manifest.encode()

    monkeypatch.setattr(Storage, "snapshot", snapshot)


def acknowledged_before_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """An add is acknowledged when it is written, not when it is synced."""

    async def write(self: WriteLog, group: Any) -> None:  # noqa: ANN401
        for connection, outbox in group.outboxes.items():
            connection.deliver(outbox)
        group.outboxes.clear()
        await original(self, group)

    original = WriteLog._write
    monkeypatch.setattr(WriteLog, "_write", write)


def manifest_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old files are removed although no durable record names the new ones."""

    async def write_manifest(self: Storage) -> None:
        return None

    monkeypatch.setattr(Storage, "write_manifest", write_manifest)


def sorted_file_not_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last group of a sorted file is never written."""

    async def finish(self: SortedFileWriter) -> int:
        self._buffers.clear()
        self._body_bytes = self._count = 0
        return await original(self)

    original = SortedFileWriter.finish
    monkeypatch.setattr(SortedFileWriter, "finish", finish)


@pytest.mark.parametrize(
    "plant",
    [
        some_syncs_skipped,
        index_before_data_is_durable,
        file_used_before_its_name_is_durable,
        fence_in_memory_only,
        log_without_snapshot,
        acknowledged_before_sync,
        manifest_not_written,
        sorted_file_not_finished,
    ],
)
def test_planted_bug_is_detected(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    report = crash_everywhere(stop_at_first=True)
    assert report.violations, plant.__doc__
