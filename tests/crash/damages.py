"""Random damages to every kind of file of a bookie: nothing is denied, falsified or lost.

Each trial damages one file of a directory with real data, either before a start or while the
storage is open. Then the trial reads every acknowledged entry, heals the index, rewrites every file
with the compactor, restarts, and reads every entry again. Run as a program with the number of
damages, it prints a table by kind of file and kind of damage.
"""

import asyncio
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import NamedTuple

from rich.console import Console
from rich.progress import track

from rhumbline.core.bookie.index.index_directory import INDEX_DIRECTORY
from rhumbline.core.bookie.ledger_records import LedgerRecord
from rhumbline.core.bookie.log.end_marker import END_MARKER_PATH
from rhumbline.core.bookie.maintenance.compactor import Compactor
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    CorruptionError,
    ForeignDataError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RhumblineError,
)
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.tests.crash.workload import BOOT, ME, bytes_of, config
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, FixedClock
from rhumbline.tests.unit.core.bookie.maintenance.test_compactor_failures import NullSink
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

PAGE = 4096
FILE_KINDS = ("index", "sealed log", "newest log", "sorted", "end marker")
FENCED, OPEN, DELETED = 1, 2, 3

SETTINGS = replace(config(BOOT), read_cache_bytes=0, index_cache_bytes=0)

Files = dict[str, bytes]


class Directory(NamedTuple):
    """The files of a bookie, earlier versions of them, and the acknowledged entries."""

    files: Files
    older: dict[str, list[bytes]]
    foreign: Files
    """The same files of another bookie."""
    entries: tuple[tuple[int, int], ...]
    is_closed: bool
    """True if the bookie was stopped in an orderly way, so that its log proves its own end."""


@dataclass
class Tally:
    """Counts by (kind of file, kind of damage, when), and of faults."""

    trials: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    refused: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Starts that were refused with an error that says why."""
    reasons: Counter[str] = field(default_factory=Counter)
    faults: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        """Adds the counts of another tally."""
        self.trials += other.trials
        self.refused += other.refused
        self.reasons += other.reasons
        self.faults += other.faults


# --- the directory ------------------------------------------------------------------------------


def _open(disk: MemoryDisk, bookie: BookieId = ME) -> Storage:
    return Storage(Runtime(FixedClock(), Random(5)), disk, SETTINGS, bookie)


async def _fill(
    storage: Storage, disk: MemoryDisk, on_step: Callable[[], None]
) -> list[tuple[int, int]]:
    """Writes logs and sorted files of every age; returns the acknowledged entries."""
    compactor = Compactor(storage, slice_bytes=3000)
    ledgers = {n: storage.create_ledger(n, KEY, is_proven=True) for n in (FENCED, OPEN, DELETED)}
    entries: list[tuple[int, int]] = []
    counts = Counter[int]()

    async def add(ledger: LedgerRecord, count: int) -> None:
        for _ in range(count):
            entry_id = counts[ledger.ledger_id]
            counts[ledger.ledger_id] += 1
            storage.add(ledger, bytes_of(ledger.ledger_id, entry_id), NullSink())
            entries.append((ledger.ledger_id, entry_id))
            if entry_id % 3 == 2:
                await storage.journal(storage.states.manifest.encode())
        await storage.journal(storage.states.manifest.encode())
        on_step()

    for _ in range(12):
        for ledger in ledgers.values():
            await add(ledger, 3)
    storage.fence(ledgers[FENCED], lambda error: None)
    await storage.write_indexes()
    while len(storage.sealed_logs) > 1:
        assert await compactor.compact_log(storage.sealed_logs[0])
        on_step()
    storage.delete_ledger(DELETED)
    await storage.journal(storage.states.manifest.encode())
    assert await compactor.compact_sorted_file(min(storage.sorted))
    for _ in range(16):
        await add(ledgers[OPEN], 3)
    await storage.write_indexes()
    assert await compactor.compact_log(storage.sealed_logs[0])
    for _ in range(12):
        await add(ledgers[OPEN], 3)
    await storage.write_indexes()
    await add(ledgers[OPEN], 4)
    return [(ledger_id, entry_id) for ledger_id, entry_id in entries if ledger_id != DELETED]


async def build_directory(*, is_closed: bool) -> Directory:
    """Return the files of a bookie that was stopped in an orderly way, or killed."""
    found = []
    for bookie in (ME, BookieId("other@0000beef")):
        disk = MemoryDisk()
        older: dict[str, list[bytes]] = {}

        def on_step(disk: MemoryDisk = disk, older: dict[str, list[bytes]] = older) -> None:
            for path, content in disk.files.items():
                versions = older.setdefault(path, [])
                if not versions or versions[-1] != content:
                    versions.append(bytes(content))

        storage = _open(disk, bookie)
        await storage.open()
        entries = await _fill(storage, disk, on_step)
        if is_closed:
            await storage.aclose()
        files = {path: bytes(content) for path, content in disk.files.items()}
        await storage.abandon()
        found.append((files, older, entries))
    (files, older, entries), (foreign, _, _) = found
    return Directory(files, older, foreign, tuple(entries), is_closed)


def kind_of(path: str, files: Files) -> str:
    """Return the kind of a file."""
    if path == END_MARKER_PATH:
        return "end marker"
    if path.startswith(INDEX_DIRECTORY):
        return "index"
    if path.startswith("sorted/"):
        return "sorted"
    newest = max(name for name in files if name.startswith("log/"))
    return "newest log" if path == newest else "sealed log"


# --- damages ------------------------------------------------------------------------------------


def _flip(content: bytes, random: Random, directory: Directory, path: str) -> bytes:
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 5))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def _truncate(content: bytes, random: Random, directory: Directory, path: str) -> bytes:
    ends = [random.randrange(len(content)), random.randrange(len(content)) // 512 * 512]
    groups = [at for at in range(len(content)) if content.startswith(b"\xf5RhG", at)]
    return content[: random.choice(ends + groups[-8:])]


def _zero(content: bytes, random: Random, directory: Directory, path: str) -> bytes:
    size = random.choice((64, 512, PAGE))
    at = random.randrange(len(content)) // size * size
    end = min(at + size, len(content))
    return content[:at] + bytes(end - at) + content[end:]


def _delete(content: bytes, random: Random, directory: Directory, path: str) -> bytes | None:
    return None


def _swap_with_older(content: bytes, random: Random, directory: Directory, path: str) -> bytes:
    older = [version for version in directory.older.get(path, []) if version != content]
    return random.choice(older) if older else b""


def _swap_with_other(content: bytes, random: Random, directory: Directory, path: str) -> bytes:
    """Prefers a file of the same kind."""
    folder = path.partition("/")[0]
    others = [name for name in directory.files if name != path]
    alike = [name for name in others if name.startswith(folder)]
    return directory.files[random.choice(random.choice((alike or others, others)))]


def _swap_with_foreign(content: bytes, random: Random, directory: Directory, path: str) -> bytes:
    return directory.foreign.get(path, b"foreign" * 200)


def _overwrite(content: bytes, random: Random, directory: Directory, path: str) -> bytes:
    """Puts bytes of one place of the file, or new ones, at another, or at its end."""
    size = random.choice((8, 100, 1000))
    at, source = random.randrange(len(content) + 1), random.randrange(len(content))
    new = random.choice((content[source : source + size], random.randbytes(size)))
    return content[:at] + new + content[at + len(new) :]


Damaging = Callable[[bytes, Random, Directory, str], bytes | None]

DAMAGES: dict[str, Damaging] = {
    "bits flipped": _flip,
    "truncated": _truncate,
    "zeroed": _zero,
    "deleted": _delete,
    "older version": _swap_with_older,
    "another file": _swap_with_other,
    "foreign file": _swap_with_foreign,
    "overwritten": _overwrite,
}


# --- a trial ------------------------------------------------------------------------------------


class _Fault(Exception):
    """A trial found a broken promise."""


async def _readable(storage: Storage, directory: Directory) -> set[tuple[int, int]]:
    """Return the entries that can be read. A denial or a wrong payload is a fault."""
    found = set()
    for ledger_id, entry_id in directory.entries:
        try:
            location = await storage.locate(ledger_id, entry_id)
            data = await storage.read(ledger_id, entry_id, location)
        except (NoSuchEntryError, NoSuchLedgerError):
            raise _Fault("denied") from None
        except RhumblineError:
            continue
        if data != bytes_of(ledger_id, entry_id):
            raise _Fault("wrong payload")
        found.add((ledger_id, entry_id))
    ledger = storage.states.ledgers.get(FENCED)
    if ledger is not None and ledger.accepts_adds:
        raise _Fault("fence lost")
    return found


async def _compact_everything(storage: Storage) -> None:
    """Rewrites every file that can be rewritten, as the maintenance task would in the long run."""
    await storage.rebuild_indexes()
    await storage.write_indexes()
    compactor = Compactor(storage, slice_bytes=3000)
    try:
        while storage.sealed_logs and await compactor.compact_log(storage.sealed_logs[0]):
            pass
        for number in list(storage.sorted):
            await compactor.compact_sorted_file(number)
    except RhumblineError:
        return  # the maintenance task retries it


async def _check(
    storage: Storage, disk: MemoryDisk, directory: Directory, *, is_harmless: bool
) -> None:
    everything = set(directory.entries)
    before = await _readable(storage, directory)
    await storage.rebuild_indexes()
    healed = await _readable(storage, directory)
    if not before <= healed or (is_harmless and healed != everything):
        raise _Fault("not healed")
    if is_harmless and storage.states.limbo.is_active:
        raise _Fault("limbo without a loss")
    await _compact_everything(storage)
    if not healed <= await _readable(storage, directory):
        raise _Fault("lost by compaction")
    await storage.aclose()
    again = _open(disk)
    await again.open(must_exist=True)
    if not healed <= await _readable(again, directory):
        raise _Fault("lost by a restart")
    await again.abandon()


def _apply(disk: MemoryDisk, path: str, content: bytes | None) -> None:
    if content is None:
        del disk.files[path]
    else:
        disk.files[path][:] = content


async def _trial(directory: Directory, random: Random, tally: Tally) -> None:
    wanted = random.choice((*FILE_KINDS, "index", "index"))
    files = directory.files
    path = random.choice([path for path in sorted(files) if kind_of(path, files) == wanted])
    name = random.choice(list(DAMAGES))
    when = random.choice(("before a start", "while running"))
    key = (wanted, name, when)
    content = DAMAGES[name](files[path], random, directory, path)
    if content == files[path]:
        return
    proves_end = directory.is_closed or when == "while running"
    is_harmless = wanted == "index" or (wanted == "end marker" and proves_end)
    tally.trials[key] += 1
    disk = MemoryDisk()
    disk.files = {path: bytearray(content) for path, content in files.items()}
    disk.directories = {"", "index", "log", "sorted"}
    storage = _open(disk)
    try:
        if when == "before a start":
            _apply(disk, path, content)
            await storage.open(must_exist=True)
        else:
            await storage.open(must_exist=True)
            _apply(disk, path, content)
        await _check(storage, disk, directory, is_harmless=is_harmless)
    except (CorruptionError, ForeignDataError) as error:
        if is_harmless or not str(error):
            tally.faults[*key, f"does not start: {error}"] += 1
        tally.refused[key] += 1
        tally.reasons[re.sub(r"\d+", "N", str(error))] += 1
    except _Fault as fault:
        tally.faults[*key, str(fault)] += 1
    except Exception as error:  # the process would end
        tally.faults[*key, f"process ends: {error!r}"[:120]] += 1
    finally:
        await storage.abandon()


def run_damages(count: int, seed: int = 1) -> Tally:
    """Return the tally of ``count`` damages."""

    async def main() -> Tally:
        tally = Tally()
        random = Random(seed)
        directories = [await build_directory(is_closed=is_closed) for is_closed in (True, False)]
        while sum(tally.trials.values()) < count:
            await _trial(random.choice(directories), random, tally)
        return tally

    return asyncio.run(main())


# --- the program --------------------------------------------------------------------------------

_PER_JOB = 500


def _print_table(tally: Tally) -> None:
    print(f"{'file':12}{'damage':16}{'trials':>9}{'starts refused':>16}{'faults':>9}")
    for kind in FILE_KINDS:
        for name in DAMAGES:
            rows = [(kind, name, when) for when in ("before a start", "while running")]
            trials = sum(tally.trials[row] for row in rows)
            refused = sum(tally.refused[row] for row in rows)
            faults = sum(count for key, count in tally.faults.items() if key[:3] in rows)
            print(f"{kind:12}{name:16}{trials:9,}{refused:16,}{faults:9,}")
    for reason, count in tally.reasons.most_common(20):
        print(f"{count:6,}  start refused: {reason}")
    for key, count in tally.faults.most_common(40):
        print(f"{count:6,}  {', '.join(key)}")


def main(arguments: Sequence[str]) -> int:
    """Run the given number of damages on all cores; returns 1 if there was a fault."""
    count = int(arguments[0]) if arguments else 10_000
    started = time.monotonic()
    tally = Tally()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = range(1, count // _PER_JOB + 1)
        parts = pool.map(partial(run_damages, _PER_JOB), jobs)
        for part in track(parts, f"{count:,} damages", len(jobs), console=Console(stderr=True)):
            tally.add(part)
    _print_table(tally)
    total, faults = sum(tally.trials.values()), sum(tally.faults.values())
    print(f"{total:,} damages in {time.monotonic() - started:.0f} s: {faults:,} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
