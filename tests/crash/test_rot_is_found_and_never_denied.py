"""Bit flips, truncations and zeroed blocks in every kind of file are detected.

A damaged storage never serves other bytes and never denies an acknowledged entry (rule BKE-2).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

import pytest

from rhumbline.core.bookie.log import replay
from rhumbline.core.bookie.start import startup
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.protocol.errors import (
    CorruptionError,
    ForeignDataError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RhumblineError,
)
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.tests.crash.recording_disk import Image, RecordingDisk
from rhumbline.tests.crash.workload import (
    BOOT,
    ME,
    Acked,
    Fenced,
    Workload,
    bytes_of,
    config,
)
from rhumbline.tests.unit.core.bookie.bookie_world import FixedClock


async def finished() -> tuple[dict[str, bytes], list[object]]:
    """Return the files and promises of a workload that was killed at its end."""
    disk = RecordingDisk()
    workload = Workload(disk)
    await workload.run()
    promises = [e.value for e in disk.events if e.kind == "promise"]
    files = {path: bytes(disk.contents[inode]) for path, inode in disk.names.items()}
    return files, promises


def damaged(files: dict[str, bytes], path: str, change: Callable[[bytearray], None]) -> Image:
    content = bytearray(files[path])
    change(content)
    return Image("killed", {**files, path: bytes(content)})


def changes(content: bytes, random: Random, count: int) -> list[Callable[[bytearray], None]]:
    """Return random bit flips and zeroed blocks."""

    def flip(at: int, bit: int) -> Callable[[bytearray], None]:
        def work(data: bytearray) -> None:
            data[at] ^= 1 << bit

        return work

    def zero(at: int) -> Callable[[bytearray], None]:
        def work(data: bytearray) -> None:
            end = min(at + 512, len(data))
            data[at:end] = bytes(end - at)

        return work

    found = [flip(random.randrange(len(content)), random.randrange(8)) for _ in range(count)]
    blocks = [at for at in range(0, len(content), 512) if any(content[at : at + 512])]
    found += [zero(blocks[random.randrange(len(blocks))]) for _ in range(count // 4)]
    return found


async def find_false_answers(image: Image, promises: Sequence[object]) -> list[str]:
    """Return the false answers and the missed damage of a bookie on damaged files."""
    runtime = Runtime(FixedClock(), Random(5))
    storage = Storage(runtime, image.disk(), config(BOOT), ME)
    found: list[str] = []
    try:
        await storage.open(must_exist=True)
    except (CorruptionError, ForeignDataError):
        await storage.abandon()
        return found  # the bookie does not start, so it denies nothing
    for promise in promises:
        if isinstance(promise, Acked) and promise.ledger_id not in storage.states.tombstones:
            try:
                data = await storage.read(*promise, await storage.locate(*promise))
                is_right = data == bytes_of(*promise) and await run_is_right(storage, *promise)
            except (NoSuchEntryError, NoSuchLedgerError):
                found.append("an acknowledged entry is denied")
            except RhumblineError:
                continue  # "unknown" is correct
            else:
                if not is_right:
                    found.append("other bytes are served")
        elif isinstance(promise, Fenced):
            ledger = storage.states.ledgers.get(promise.ledger_id)
            if ledger is not None and ledger.accepts_adds:
                found.append("a fenced ledger accepts adds")
    await storage.aclose()
    return found


async def run_is_right(storage: Storage, ledger_id: int, first: int) -> bool:
    """Return whether a run from every eighth entry has the right bytes. Raises as read_run."""
    if first % 8:
        return True
    run = await storage.read_run(ledger_id, first, 3, 1 << 20)
    return run == [bytes_of(ledger_id, first + at) for at in range(len(run))]


async def rot_everywhere(count: int) -> tuple[int, Counter[str]]:
    files, promises = await finished()
    random = Random(3)
    lies: Counter[str] = Counter()
    images = 0
    for path in sorted(files):
        for change in changes(files[path], random, count):
            image = damaged(files, path, change)
            images += 1
            lies.update(await find_false_answers(image, promises))
    return images, lies


def test_corruption_in_any_file_is_neither_served_nor_a_denial() -> None:
    images, lies = asyncio.run(rot_everywhere(80))
    print(f"{images} damaged images")
    assert lies == {}
    assert images > 500


async def test_truncated_sealed_file_is_damage() -> None:
    files, promises = await finished()
    newest = max(path for path in files if path.startswith("log/"))
    for path in sorted(files):
        if path == newest:
            continue
        for keep in (0, 100, 600, len(files[path]) // 2, len(files[path]) - 1):
            image = Image("killed", {**files, path: files[path][:keep]})
            assert await find_false_answers(image, promises) == [], (path, keep)


async def test_missing_file_is_damage() -> None:
    files, promises = await finished()
    for path in sorted(files):
        image = Image("killed", {p: c for p, c in files.items() if p != path})
        assert await find_false_answers(image, promises) == [], path


def test_treating_damage_as_a_torn_end_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_next(*_: object) -> None:
        return None

    def no_classification(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr(replay, "_next_group", no_next)
    monkeypatch.setattr(replay, "_with_missing_end", lambda scan, *_: scan)
    monkeypatch.setattr(startup, "_check_newest", no_classification)
    _, lies = asyncio.run(rot_everywhere(8))
    assert lies["an acknowledged entry is denied"] > 0
