"""The responses of v3 long polls: an entry with the LAC, the LAC alone, or a refusal."""

from typing import Any, cast

import pytest

from rhumbline.core.bookie.index.tiered_index import NotInMemoryError
from rhumbline.core.bookie.ledger_records import LedgerRecord
from rhumbline.core.bookie.server.long_poll_v3 import PiggybackPoll, PlainPoll
from rhumbline.core.bookie.server.operation_meter import OperationMeter
from rhumbline.core.bookie.server.requests import EntryRead, FileRead
from rhumbline.core.protocol.errors import (
    CorruptionError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RhumblineError,
    UnknownStateError,
)
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire import v3
from rhumbline.core.wire.v3 import Status

LOCATION = "location"


class Bookie:
    """Stands for the connection, the service and the storage of one ledger."""

    def __init__(self, lac: int = 5, last: int = 6) -> None:
        self.storage = self
        self.is_full = False
        self.directory = ""
        self.ledger = LedgerRecord(7, bytes(20))
        self.ledger.lac, self.ledger.lac_changed_ms = lac, 1_234
        self.last = last
        self.missing: RhumblineError = NoSuchLedgerError("no ledger")
        self.failure: RhumblineError | None = None
        self.in_memory: bytes | None = b"entry"
        self.asked: list[tuple[int, int]] = []
        self.sent: list[pb.Response] = []
        self.queued: list[FileRead] = []
        self.reads: list[EntryRead] = []
        self.meter = OperationMeter(lambda: 0.0)

    def send(self, frame: bytes) -> None:
        self.sent.append(v3.decode_response(frame[4:]))

    def enqueue_read(self, read: FileRead) -> None:
        self.queued.append(read)

    def read(self, read: EntryRead) -> None:
        self.reads.append(read)

    def absence(self, ledger_id: int) -> RhumblineError:
        assert ledger_id == 7
        return self.missing

    def last_entry(self, ledger_id: int) -> int:
        assert ledger_id == 7
        return self.last

    def find(self, ledger_id: int, entry_id: int) -> str:
        self.asked.append((ledger_id, entry_id))
        if self.failure is not None:
            raise self.failure
        return LOCATION

    def cached(self, location: str) -> bytes | None:
        assert location == LOCATION
        return self.in_memory

    def directory_of(self, location: str) -> str:
        assert location == LOCATION
        return self.directory

    async def fetch(
        self, read: FileRead, connection: object, ledger_id: int, entry_id: int
    ) -> bytes | None:
        self.find(ledger_id, entry_id)
        if read.directory != self.directory:
            return None
        return b"from a file"

    def poll(self, previous_lac: int = 3) -> PiggybackPoll:
        request = v3.long_poll_request(9, 7, previous_lac=previous_lac, timeout_ms=200)
        return PiggybackPoll(cast(Any, self), cast(Any, self), request)

    def woken(self, previous_lac: int = 3, *, has_waited: bool = True) -> pb.ReadResponse:
        """Wake a poll; returns the only response."""
        self.poll(previous_lac).wake(self.ledger, has_waited=has_waited)
        return self.response()

    def response(self, status: Status = Status.OK) -> pb.ReadResponse:
        (response,) = self.sent
        assert response.header.txn_id == 9
        assert v3.status_of(response) == status
        assert response.read_response.ledger_id == 7
        return response.read_response


def test_poll_takes_its_limits_from_the_request() -> None:
    poll = Bookie().poll(previous_lac=4)
    assert (poll.ledger_id, poll.previous_lac, poll.timeout_ms) == (7, 4, 200)


@pytest.mark.parametrize(("previous_lac", "wanted"), [(3, 4), (-1, 0), (-5, 0), (4, 5)])
def test_entry_after_the_last_one_of_the_reader_is_sent_with_the_lac(
    previous_lac: int, wanted: int
) -> None:
    bookie = Bookie()
    response = bookie.woken(previous_lac)
    assert bookie.asked == [(7, wanted)]
    assert (response.entry_id, response.body, response.max_lac) == (wanted, b"entry", 5)
    assert response.lac_updated_ms == 1_234


def test_time_of_the_lac_is_sent_only_to_a_reader_that_waited() -> None:
    assert not Bookie().woken(has_waited=False).HasField("lac_updated_ms")
    bookie = Bookie()
    bookie.failure = CorruptionError("rotten")
    assert not bookie.woken().HasField("lac_updated_ms"), "there is no entry"


@pytest.mark.parametrize("previous_lac", [5, 6])
def test_lac_alone_is_sent_if_it_has_not_risen(previous_lac: int) -> None:
    bookie = Bookie()
    response = bookie.woken(previous_lac)
    assert (response.entry_id, response.HasField("body"), response.max_lac) == (-1, False, 5)
    assert bookie.asked == []


def test_ledger_without_entries_and_lac_has_none_to_wait_for() -> None:
    bookie = Bookie(lac=-1, last=-1)
    bookie.missing = NoSuchEntryError("no entry")
    bookie.poll(-1).wake(bookie.ledger, has_waited=True)
    assert not bookie.response(Status.NO_ENTRY).HasField("body")
    assert Bookie(lac=-1, last=0).woken(-1).max_lac == -1
    assert Bookie(lac=0, last=-1).woken(0).max_lac == 0


def test_unknown_ledger_is_refused() -> None:
    bookie = Bookie()
    bookie.poll().wake(None, has_waited=True)
    bookie.response(Status.NO_LEDGER)
    limbo = Bookie()
    limbo.missing = UnknownStateError("in limbo")
    limbo.poll().wake(None, has_waited=False)
    limbo.response(Status.UNKNOWN_STATE)


@pytest.mark.parametrize("is_on_disk", [False, True])
async def test_entry_that_is_not_in_memory_is_read_from_a_file(is_on_disk: bool) -> None:
    bookie = Bookie()
    bookie.in_memory = None
    bookie.failure = NotInMemoryError("on disk") if is_on_disk else None
    poll = bookie.poll(3)
    poll.wake(bookie.ledger, has_waited=True)
    assert (bookie.sent, bookie.queued) == ([], [poll])
    bookie.failure = None
    await poll.run()
    response = bookie.response()
    assert (response.entry_id, response.body, response.max_lac) == (4, b"from a file", 5)
    assert response.lac_updated_ms == 1_234
    assert bookie.asked == [(7, 4), (7, 4)]


async def test_entry_is_read_with_the_others_of_its_directory() -> None:
    bookie = Bookie()
    bookie.in_memory, bookie.directory = None, "/d1"
    poll = bookie.poll(3)
    poll.wake(bookie.ledger, has_waited=True)
    assert (bookie.queued, poll.directory) == ([poll], "/d1")
    bookie.directory = "/d2"
    await poll.run()
    assert bookie.sent == [], "it was queued again"


async def test_first_entry_is_read_from_a_file_for_a_reader_without_any() -> None:
    bookie = Bookie()
    bookie.in_memory = None
    poll = bookie.poll(-4)
    poll.wake(bookie.ledger, has_waited=False)
    await poll.run()
    assert bookie.asked == [(7, 0), (7, 0)]
    assert bookie.response().entry_id == 0


async def test_entry_that_cannot_be_read_is_left_out() -> None:
    bookie = Bookie()
    bookie.in_memory = None
    poll = bookie.poll(3)
    poll.wake(bookie.ledger, has_waited=True)
    bookie.failure = CorruptionError("rotten")
    await poll.run()
    response = bookie.response()
    assert (response.entry_id, response.HasField("body"), response.max_lac) == (-1, False, 5)


def test_plain_poll_is_served_as_a_read() -> None:
    bookie = Bookie()
    request = v3.read_request(9, 7, 4)
    request.read_request.previous_lac = 2
    request.read_request.timeout_ms = 30
    read = EntryRead(cast(Any, bookie), 7, 4, b"", is_fencing=False)
    poll = PlainPoll(cast(Any, bookie), read, request)
    assert (poll.ledger_id, poll.previous_lac, poll.timeout_ms) == (7, 2, 30)
    poll.wake(None, has_waited=False)
    assert bookie.reads == [read]
