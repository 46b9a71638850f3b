"""Reads from files: one entry, or consecutive ones up to a limit."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from rhumbline.core.bookie.background_pace import BackgroundPace
from rhumbline.core.bookie.index.entry_index import Location
from rhumbline.core.bookie.server.entry_service import EntryService
from rhumbline.core.bookie.server.file_reads import BatchReading, EntryReading
from rhumbline.core.bookie.server.operation_meter import OperationMeter
from rhumbline.core.bookie.server.read_queue import ReadSlots
from rhumbline.core.bookie.server.requests import BatchRead, EntryRead, FileRead, RequestConnection
from rhumbline.core.protocol.errors import (
    CorruptionError,
    NoSuchEntryError,
    RhumblineError,
    UnknownStateError,
)
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

PLACE = Location(5, 6)


class Bookie:
    """Stands for the connection, the service and the storage of ledger 7."""

    def __init__(self, entries: Sequence[bytes] = ()) -> None:
        self.storage = self
        self.pace = BackgroundPace()
        self.read_slots = ReadSlots(1, self.pace)
        self.is_full = False
        self.entries = list(entries)
        self.run_length = 2
        self.read_s = 0.0
        self.failure: RhumblineError | None = None
        self.in_memory: bytes | None = None
        self.located: list[tuple[int, int]] = []
        self.calls: list[tuple[int, int, int, str | None]] = []
        self.directory = ""
        self.queued: list[FileRead] = []
        self.sent: list[object] = []
        self.meter = OperationMeter(lambda: 0.0)

    def counted(self) -> dict[tuple[str, str], int]:
        """Return the operations by kind and result."""
        found = self.meter.statistics()["operations"]
        return {(kind, r): n for kind, results in found.items() for r, n in results.items() if n}

    def respond(self, op: EntryRead, error: RhumblineError | None = None) -> None:
        EntryService.respond(cast("EntryService", self), op, error)

    def respond_entry(self, op: EntryRead, entry: bytes) -> None:
        EntryService.respond_entry(cast("EntryService", self), op, entry)

    def weaken_denial(self, op: EntryRead, error: RhumblineError) -> RhumblineError:
        return UnknownStateError("weak") if isinstance(error, NoSuchEntryError) else error

    def send(self, frame: object) -> None:
        self.sent.append(frame)

    def send_parts(self, parts: object) -> None:
        self.sent.append(parts)

    async def locate(self, ledger_id: int, entry_id: int) -> Location:
        self.located.append((ledger_id, entry_id))
        return PLACE

    async def locate_for(
        self,
        read: FileRead,
        connection: RequestConnection,
        ledger_id: int,
        entry_id: int,
    ) -> Location | None:
        service = cast("EntryService", self)
        return await EntryService.locate_for(service, read, connection, ledger_id, entry_id)

    def directory_of(self, location: Location) -> str:
        assert location == PLACE
        return self.directory

    def enqueue_read(self, read: FileRead) -> None:
        self.queued.append(read)

    def cached(self, location: Location) -> bytes | None:
        return self.in_memory

    async def read(self, ledger_id: int, entry_id: int, location: Location) -> bytes:
        assert (ledger_id, location) == (7, PLACE)
        if self.failure is not None:
            raise self.failure
        return b"entry %d" % entry_id

    async def read_run(
        self,
        ledger_id: int,
        first: int,
        count_max: int,
        bytes_max: int,
        *,
        following_in: str | None,
    ) -> list[bytes]:
        assert ledger_id == 7
        self.calls.append((first, count_max, bytes_max, following_in))
        if self.read_s:
            await asyncio.sleep(self.read_s)
        found = self.entries[first : first + min(self.run_length, count_max)]
        if not found:
            raise self.failure or NoSuchEntryError("no such entry")
        return [] if following_in is not None and len(found[0]) > bytes_max else found


class Read(EntryRead):
    """A read whose response is the pair of its arguments."""

    def response(self, error: RhumblineError | None, entry: bytes = b"") -> bytes:
        return cast("bytes", (error, entry))


class Batch(BatchRead):
    """A batch read whose response is the error, or the list of the entries."""

    def response(self, error: RhumblineError | None, entry: bytes = b"") -> bytes:
        return cast("bytes", error)

    def batch_response(self, entries: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
        return list(entries)


async def batch(
    bookie: Bookie, first: int = 0, count_max: int = 0, bytes_max: int = 10_000
) -> object:
    """Run a batch read; returns its only response. Each entry has an overhead of 4 bytes."""
    op = Batch(cast(Any, bookie), 7, first, b"", is_fencing=False)
    op.count_max, op.bytes_max, op.entry_bytes = count_max, bytes_max, 4
    await BatchReading(cast(Any, bookie), op).run()
    (response,) = bookie.sent
    return response


@pytest.mark.parametrize("is_located", [False, True])
async def test_entry_is_located_unless_it_was_before(is_located: bool) -> None:
    bookie = Bookie()
    op = Read(cast(Any, bookie), 7, -1, b"", is_fencing=False)
    await EntryReading(cast(Any, bookie), op, 3, PLACE if is_located else None).run()
    assert bookie.located == ([] if is_located else [(7, 3)])
    assert bookie.sent == [(None, b"entry 3")]


async def test_read_runs_with_the_others_of_its_directory() -> None:
    bookie = Bookie(FIVE)
    bookie.directory = "/d1"
    entry = Read(cast(Any, bookie), 7, 3, b"", is_fencing=False)
    assert EntryReading(cast(Any, bookie), entry, 3, PLACE).directory == "/d1"
    run = Batch(cast(Any, bookie), 7, 0, b"", is_fencing=False)
    run.count_max, run.bytes_max, run.entry_bytes = 0, 1_000, 4
    for read in (
        EntryReading(cast(Any, bookie), entry, 3, None),
        BatchReading(cast(Any, bookie), run),
    ):
        assert read.directory == ""
        await read.run()
        assert (bookie.sent, bookie.queued, read.directory) == ([], [read], "/d1")
        bookie.queued.clear()
        await read.run()
        assert bookie.queued == []
        assert len(bookie.sent) == 1
        bookie.sent.clear()
    assert [call[3] for call in bookie.calls] == [None, *["/d1"] * 3]


async def test_entry_in_memory_is_not_read_again() -> None:
    bookie = Bookie()
    bookie.in_memory = b"in memory"
    op = Read(cast(Any, bookie), 7, 3, b"", is_fencing=False)
    await EntryReading(cast(Any, bookie), op, 3, PLACE).run()
    assert bookie.sent == [(None, b"in memory")]


async def test_failed_read_is_answered_with_its_error() -> None:
    bookie = Bookie()
    bookie.failure = error = CorruptionError("rotten")
    op = Read(cast(Any, bookie), 7, 3, b"", is_fencing=True)
    await EntryReading(cast(Any, bookie), op, 3, PLACE).run()
    assert bookie.sent == [(error, b"")]
    bookie.failure = NoSuchEntryError("it was deleted")
    await EntryReading(cast(Any, bookie), op, 3, PLACE).run()
    answer = cast(Any, bookie.sent[1])[0]
    assert isinstance(answer, UnknownStateError), "a denial needs proof"
    assert bookie.counted() == {("fence", "failed"): 1, ("fence", "unknown"): 1}


FIVE = [b"%d" % number * 10 for number in range(5)]


@pytest.mark.parametrize(
    ("first", "count_max", "bytes_max", "count"),
    [(0, 0, 1_000, 5), (0, -1, 1_000, 5), (1, 0, 1_000, 4), (0, 3, 1_000, 3), (0, 1, 1_000, 1),
     (0, 9, 3 * 14, 3), (0, 9, 3 * 14 - 1, 2), (0, 9, 14, 1), (0, 9, 1, 1), (0, 9, 4 * 14 + 9, 4)],
)  # fmt: skip
async def test_batch_ends_at_its_limits(
    first: int, count_max: int, bytes_max: int, count: int
) -> None:
    assert await batch(Bookie(FIVE), first, count_max, bytes_max) == FIVE[first : first + count]


async def test_batch_asks_for_what_is_left_of_its_limits() -> None:
    bookie = Bookie(FIVE)
    assert await batch(bookie, 0, 5, 100) == FIVE
    assert bookie.calls == [(0, 5, 100, None), (2, 3, 72, ""), (4, 1, 44, "")]


async def test_batch_ends_before_an_entry_that_cannot_be_read() -> None:
    bookie = Bookie(FIVE)
    bookie.failure = CorruptionError("rotten")
    assert await batch(bookie) == FIVE
    missing = Bookie(FIVE)
    assert isinstance(await batch(missing, first=5), UnknownStateError)
    rotten = Bookie(FIVE)
    rotten.failure = CorruptionError("rotten")
    assert await batch(rotten, first=5) is rotten.failure


@pytest.mark.run_by(runner=run_jumping)
@pytest.mark.parametrize(("read_s", "count"), [(0.02, 3), (0.025, 2), (0.049, 2), (0.06, 1)])
async def test_batch_from_a_slow_disk_ends_after_fifty_milliseconds(
    read_s: float, count: int
) -> None:
    bookie = Bookie(FIVE)
    bookie.run_length, bookie.read_s = 1, read_s
    assert await batch(bookie) == FIVE[:count]


@pytest.mark.run_by(runner=run_jumping)
async def test_batch_is_short_while_reads_yield_to_commits() -> None:
    bookie = Bookie(FIVE)
    bookie.run_length, bookie.read_s = 1, 0.002
    now_s = asyncio.get_running_loop().time()
    bookie.pace.note_commit(0.001, now_s, 100)
    bookie.pace.rest_s(0, now_s)
    assert await batch(bookie) == FIVE
    bookie.sent.clear()
    bookie.pace.note_commit(1.0, now_s + 0.001, 100)
    assert await batch(bookie) == FIVE[:3], "5 ms are over after the third read"
