"""Every point at which everything may stop, and what a restart must find after it."""

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


def test_what_was_promised_holds_after_every_crash() -> None:
    report = crash_everywhere()
    print(f"{report.cut_points} cut points, {report.image_count} images")
    assert report.violations == {}
    assert report.image_count > 2_000


def skipped_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """One fdatasync in seven does nothing."""
    count = 0

    async def write_durable(self: RecordingFile, offset: int, buffers: Any) -> None:  # noqa: ANN401
        nonlocal count
        count += 1
        await self.write(offset, buffers)
        if count % 7:
            await self.sync()

    monkeypatch.setattr(RecordingFile, "write_durable", write_durable)


def index_before_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index points to a sorted file that was never synced."""

    async def sync(self: RecordingFile) -> None:
        if not self.path.startswith("sorted/"):
            await original(self)

    original = RecordingFile.sync
    monkeypatch.setattr(RecordingFile, "sync", sync)


def name_before_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sorted file is used before its name is durable."""

    async def sync_directory(self: RecordingDisk, path: str) -> None:
        if path != "sorted":
            await original(self, path)

    original = RecordingDisk.sync_directory
    monkeypatch.setattr(RecordingDisk, "sync_directory", sync_directory)


def forgotten_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fence is only in memory."""

    def fence(self: Storage, ledger: LedgerRecord, on_durable: OnDurable) -> None:
        on_durable(None)

    monkeypatch.setattr(Storage, "fence", fence)


def lost_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new log does not begin with the state of the old ones, which are sorted away."""

    def snapshot(self: Storage) -> Iterator[bytes]:
        yield boot_record(self.states.boot_id)
        yield self.states.manifest.encode()

    monkeypatch.setattr(Storage, "snapshot", snapshot)


def early_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An add is acknowledged when it is written, not when it is synced."""

    async def write(self: WriteLog, group: Any) -> None:  # noqa: ANN401
        for connection, outbox in group.outboxes.items():
            connection.answered(outbox)
        group.outboxes.clear()
        await original(self, group)

    original = WriteLog._write
    monkeypatch.setattr(WriteLog, "_write", write)


def unwritten_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old files go although no durable record names the new ones."""

    async def write_manifest(self: Storage) -> None:
        self.states.manifest.index_sequence = self.index.store.sequence

    monkeypatch.setattr(Storage, "write_manifest", write_manifest)


def unfinished_sorted_file(monkeypatch: pytest.MonkeyPatch) -> None:
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
        skipped_sync,
        index_before_data,
        name_before_directory,
        forgotten_fence,
        lost_snapshot,
        early_answer,
        unwritten_manifest,
        unfinished_sorted_file,
    ],
)
def test_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    report = crash_everywhere(stop_at_first=True)
    assert report.violations, plant.__doc__
