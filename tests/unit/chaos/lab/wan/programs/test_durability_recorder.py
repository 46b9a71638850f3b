"""``DurabilityRecorderDisk`` notes a record only after the sync that covers it has returned."""

import time
from pathlib import Path

from rhumbline.chaos.checker.history import token_of
from rhumbline.chaos.lab.wan.programs.durability_recorder import (
    DurabilityRecorderDisk,
    read_notes,
    slow_file,
)

FIRST, SECOND, THIRD = (token_of(1, number) for number in range(3))


async def test_only_records_covered_by_a_sync_are_noted(tmp_path: Path) -> None:
    notes = tmp_path / "x.durable"
    disk = DurabilityRecorderDisk(tmp_path / "disk", notes)
    file = await disk.open("log", create=True)
    before = time.monotonic() * 1000
    await file.write_durable(0, [b"..", FIRST + b"...."])
    await file.write(100, [SECOND])
    assert set(read_notes(notes)) == {FIRST}
    await file.sync()
    await file.write(200, [THIRD])
    noted = read_notes(notes)
    assert set(noted) == {FIRST, SECOND}
    assert before <= noted[FIRST] <= noted[SECOND] <= time.monotonic() * 1000
    assert await file.read(100, len(SECOND)) == SECOND
    await file.close()
    disk.close()


async def test_a_slow_disk_delays_syncs(tmp_path: Path) -> None:
    notes = tmp_path / "x.durable"
    slow_file(notes).write_text("1000000")
    disk = DurabilityRecorderDisk(tmp_path / "disk", notes)
    file = await disk.open("log", create=True)
    started = time.monotonic() * 1000
    await file.write_durable(0, [FIRST])
    await file.close()
    disk.close()
    assert read_notes(notes)[FIRST] - started >= 400


def test_the_first_note_of_a_record_counts(tmp_path: Path) -> None:
    notes = tmp_path / "x.durable"
    assert read_notes(notes) == {}
    notes.write_bytes(b"5.250 " + FIRST + b"\n7.000 " + FIRST + b"\n")
    assert read_notes(notes) == {FIRST: 5.25}
