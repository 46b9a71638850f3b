"""The workload of the crash tests, the promises to it, and the check that they are kept."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random
from struct import Struct
from typing import NamedTuple

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.log.commit_group import Outbox
from rhumbline.core.bookie.maintenance.compactor import Compactor
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import NoSuchEntryError, NoSuchLedgerError, RhumblineError
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.tests.crash.recording_disk import Event, Image, RecordingDisk, Replay
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, FixedClock, entry, lac_body

ME = BookieId("crash@0000c0de")
BOOT = "first"
_ADD_KEY = Struct(">qq")  # ledger id, entry id


def config(boot_id: str = BOOT) -> BookieConfig:
    """Return a configuration with small files and without cache, so that reads use the files."""
    return BookieConfig(log_file_bytes=4096, tail_cache_bytes=0, boot_id=boot_id)


class Acked(NamedTuple):
    """An entry was acknowledged."""

    ledger_id: int
    entry_id: int


class Fenced(NamedTuple):
    """A fence was acknowledged."""

    ledger_id: int


class Lac(NamedTuple):
    """An explicit LAC was acknowledged."""

    ledger_id: int
    lac: int


class Deleted(NamedTuple):
    """A ledger's deletion is durable."""

    ledger_id: int


class PromiseRecorder:
    """A connection that records delivered responses as promises."""

    def __init__(self, disk: RecordingDisk) -> None:
        self._disk = disk

    def deliver(self, outbox: Outbox) -> None:
        for key in outbox.adds:
            assert isinstance(key, bytes)
            self._disk.promise(Acked(*_ADD_KEY.unpack(key)))

    def reject(self, outbox: Outbox, error: RhumblineError) -> None:
        raise AssertionError(f"unexpected failure: {error}")


def bytes_of(ledger_id: int, entry_id: int) -> bytes:
    """Return the bytes of an entry, which follow from its ids."""
    payload = Random(ledger_id * 1000 + entry_id).randbytes(120 + entry_id % 90)
    return entry(ledger_id, entry_id, payload)


class Workload:
    """Adds, fences, LACs, rolls, compaction and deletion on one storage."""

    def __init__(self, disk: RecordingDisk, seed: int = 1) -> None:
        self._disk = disk
        self._random = Random(seed)
        runtime = Runtime(FixedClock(), Random(seed))
        self.storage = Storage(runtime, disk, config(), ME)
        self._recorder = PromiseRecorder(disk)
        self._compactor = Compactor(self.storage, slice_bytes=4000)
        self._next_entry = dict.fromkeys((1, 2, 3), 0)

    async def run(self) -> None:
        storage, disk = self.storage, self._disk
        await storage.open()
        ledgers = {n: storage.create_ledger(n, KEY, is_proven=True) for n in (1, 2, 3)}
        await self._burst(25, (1, 2, 3))
        storage.fence(ledgers[1], lambda error: disk.promise(Fenced(1)))
        storage.write_lac(ledgers[2], lac_body(2, 3), lambda error: disk.promise(Lac(2, 3)))
        await self._burst(20, (2, 3))
        compacting = asyncio.ensure_future(self._compact_all())
        await self._burst(25, (2, 3))
        await compacting
        storage.delete_ledger(3)
        storage.when_durable(lambda error: disk.promise(Deleted(3)))
        await self._burst(30, (2,))
        for number in sorted(storage.sorted)[:2]:
            await self._compactor.compact_sorted_file(number)
            await self._burst(3, (2,))
        await self._compact_all()
        await self._burst(3, (2,))
        await storage.aclose()

    async def _burst(self, batches: int, among: Sequence[int]) -> None:
        random, storage = self._random, self.storage
        for _ in range(batches):
            for _ in range(random.randrange(1, 6)):
                ledger_id = among[random.randrange(len(among))]
                number = self._next_entry[ledger_id]
                self._next_entry[ledger_id] += 1
                ledger = storage.states.ledgers[ledger_id]
                storage.add(ledger, bytes_of(ledger_id, number), self._recorder)
            for _ in range(random.randrange(1, 9)):
                await asyncio.sleep(0)

    async def _compact_all(self) -> None:
        storage = self.storage
        await storage.write_indexes()
        while storage.sealed_logs and storage.sealed_logs[0] in storage.index.files:
            assert await self._compactor.compact_log(storage.sealed_logs[0])


class Report(NamedTuple):
    """The result of restarts at all crash points."""

    cut_points: int
    image_count: int
    violations: Counter[str]


async def walk(events: Sequence[Event], seed: int = 1, *, stop_at_first: bool = False) -> Report:
    """Restarts on every image of every crash point."""
    replay = Replay(Random(seed))
    promises: list[object] = []
    images = 0
    violations: Counter[str] = Counter()
    for at, event in enumerate(events):
        if event.kind == "promise":
            promises.append(event.value)
        replay.step(event)
        following = events[at + 1] if at + 1 < len(events) else None
        if following is not None and following.kind == "promise":
            continue  # a promise belongs to the event before it
        for image in replay.images(following):
            images += 1
            violations.update(await find_violations(image, promises))
        if stop_at_first and violations:
            break
    return Report(len(events), images, violations)


async def find_violations(image: Image, promises: Sequence[object]) -> list[str]:
    """Return the broken promises and other errors of a restart on the image."""
    boot = BOOT if image.kind == "killed" else "second"
    runtime = Runtime(FixedClock(), Random(5))
    storage = Storage(runtime, image.disk(), config(boot), ME)
    try:
        await storage.open()
    except RhumblineError as error:
        await storage.abandon()
        return [f"does not open: {type(error).__name__}"]
    found = [
        f"a torn end counts as damage: {damage.reason}"
        for damage in storage.damages
        if "went down" not in damage.reason
    ]
    for promise in promises:
        fault = await _broken(storage, promise)
        if fault is not None:
            found.append(fault)
    found.extend(await _find_unfinished(storage))
    await storage.aclose()
    return found


async def _broken(storage: Storage, promise: object) -> str | None:
    states = storage.states
    if isinstance(promise, Acked):
        if promise.ledger_id == 3 and 3 in states.tombstones:
            return None
        return await _unreadable(storage, promise)
    if isinstance(promise, Fenced) and not states.ledgers[promise.ledger_id].is_fenced:
        return "a fence is lost"
    if isinstance(promise, Lac) and states.ledgers[promise.ledger_id].lac < promise.lac:
        return "an explicit LAC is lost"
    if isinstance(promise, Deleted) and promise.ledger_id not in states.tombstones:
        return "a tombstone is lost"
    return None


async def _unreadable(storage: Storage, promise: Acked) -> str | None:
    try:
        data = await storage.read(*promise, await storage.locate(*promise))
    except (NoSuchEntryError, NoSuchLedgerError):
        return "an acknowledged entry is denied"
    except RhumblineError as error:
        return f"an acknowledged entry cannot be read: {type(error).__name__}"
    if data != bytes_of(*promise):
        return "an acknowledged entry has other bytes"
    ledger = storage.states.ledgers.get(promise.ledger_id)
    if ledger is None or ledger.master_key != KEY:
        return "the state of a ledger is lost"
    return None


async def _find_unfinished(storage: Storage) -> list[str]:
    """Return errors for indexed entries that were never added or cannot be read."""
    found = []
    for ledger_id in dict.fromkeys(storage.index.ledgers()):
        if not storage.is_held(ledger_id):
            continue
        for row in await storage.index.page(ledger_id, 0, 10_000):
            try:
                location = await storage.locate(ledger_id, row.entry_id)
                data = await storage.read(ledger_id, row.entry_id, location)
            except RhumblineError as error:
                found.append(f"an indexed entry cannot be read: {type(error).__name__}")
                continue
            if data != bytes_of(ledger_id, row.entry_id):
                found.append("other bytes than those added are served")
    return found
