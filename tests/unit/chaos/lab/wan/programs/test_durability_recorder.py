"""The lab's disk notes a record when the sync that covers it has returned, and not before."""

import asyncio
import time
from pathlib import Path

from rhumbline.chaos.checker.history import token_of
from rhumbline.chaos.lab.wan.programs.durability_recorder import (
    DurabilityRecorderDisk,
    read_notes,
    slow_file,
)

ONE, TWO, THREE = (token_of(1, number) for number in range(3))


def test_only_what_a_sync_covered_is_noted(tmp_path: Path) -> None:
    notes = tmp_path / "x.durable"

    async def write() -> None:
        disk = DurabilityRecorderDisk(tmp_path / "disk", notes)
        file = await disk.open("log", create=True)
        before = time.monotonic() * 1000
        await file.write_durable(0, [b"..", ONE + b"...."])
        await file.write(100, [TWO])
        assert set(read_notes(notes)) == {ONE}
        await file.sync()
        await file.write(200, [THREE])
        noted = read_notes(notes)
        assert set(noted) == {ONE, TWO}
        assert before <= noted[ONE] <= noted[TWO] <= time.monotonic() * 1000
        assert await file.read(100, len(TWO)) == TWO
        await file.close()
        disk.close()

    asyncio.run(write())


def test_a_slow_disk_notes_late(tmp_path: Path) -> None:
    notes = tmp_path / "x.durable"
    slow_file(notes).write_text("1000000")

    async def write() -> float:
        disk = DurabilityRecorderDisk(tmp_path / "disk", notes)
        file = await disk.open("log", create=True)
        began = time.monotonic() * 1000
        await file.write_durable(0, [ONE])
        await file.close()
        disk.close()
        return read_notes(notes)[ONE] - began

    assert asyncio.run(write()) >= 400


def test_the_first_time_counts(tmp_path: Path) -> None:
    notes = tmp_path / "x.durable"
    assert read_notes(notes) == {}
    notes.write_bytes(b"5.250 " + ONE + b"\n7.000 " + ONE + b"\n")
    assert read_notes(notes) == {ONE: 5.25}
