"""Long polls in the v3 form and their responses."""

from typing import TYPE_CHECKING

from ...protocol.errors import RhumblineError
from ...protocol.ledger_metadata import NO_ENTRY
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from ...wire.error_codes import status_for
from ..index.tiered_index import NotInMemoryError
from ..ledger_records import LedgerRecord
from .long_poll import Poll
from .operation_meter import POLL
from .requests import EntryRead

if TYPE_CHECKING:
    from .connection import ClientConnection
    from .entry_service import EntryService


class PlainPoll(Poll):
    """A read that waits for the LAC and is then served as a plain read."""

    __slots__ = ("_read", "_service")

    def __init__(self, service: "EntryService", read: EntryRead, request: pb.Request) -> None:
        body = request.read_request
        super().__init__(body.ledger_id, body.previous_lac, body.timeout_ms)
        self._service = service
        self._read = read

    def wake(self, ledger: LedgerRecord | None, *, has_waited: bool) -> None:
        """See long_poll.Poll."""
        self._service.read(self._read)


class PiggybackPoll(Poll):
    """A poll whose response holds the LAC and the entry after the reader's last one."""

    __slots__ = (
        "_began", "_connection", "_ledger", "_request", "_service", "_waited", "directory",
        "is_urgent",
    )  # fmt: skip

    def __init__(
        self, connection: "ClientConnection", service: "EntryService", request: pb.Request
    ) -> None:
        body = request.read_request
        super().__init__(body.ledger_id, body.previous_lac, body.timeout_ms)
        self._connection = connection
        self._service = service
        self._request = request
        self._ledger: LedgerRecord | None = None
        self._waited = False
        self._began = 0.0
        self.directory = ""
        self.is_urgent = False

    def wake(self, ledger: LedgerRecord | None, *, has_waited: bool) -> None:
        """See long_poll.Poll."""
        self._began = self._service.meter.now()
        if ledger is None:
            self._refuse(self._service.storage.absence(self.ledger_id))
            return
        self._ledger, self._waited = ledger, has_waited
        service = self._service
        if ledger.lac <= self.previous_lac:
            if ledger.lac == NO_ENTRY and service.storage.last_entry(self.ledger_id) == NO_ENTRY:
                self._refuse(service.storage.absence(self.ledger_id))
            else:
                self._send(None)
            return
        entry_id = max(self.previous_lac + 1, 0)
        try:
            location = service.storage.find(self.ledger_id, entry_id)
        except NotInMemoryError:
            self._connection.enqueue_read(self)
            return
        except RhumblineError:
            self._send(None)
            return
        entry = None if self._connection.is_full else service.storage.cached(location)
        if entry is None:
            self.directory = service.storage.directory_of(location)
            self._connection.enqueue_read(self)
        else:
            self._send(entry, entry_id)

    async def run(self) -> None:
        """Reads the entry from a file. If that fails, the response holds the LAC alone."""
        wanted = max(self.previous_lac + 1, 0)
        try:
            entry = await self._service.fetch(self, self._connection, self.ledger_id, wanted)
        except RhumblineError:
            self._send(None)
            return
        if entry is not None:
            self._send(entry, wanted)

    def _send(self, entry: bytes | None, entry_id: int = NO_ENTRY) -> None:
        assert self._ledger is not None
        changed_ms = self._ledger.lac_changed_ms if self._waited and entry is not None else None
        response = v3.read_response(
            self._request,
            v3.Status.OK,
            entry,
            entry_id=entry_id,
            max_lac=self._ledger.lac,
            lac_updated_ms=changed_ms,
        )
        self._service.meter.done(POLL, self._began)
        self._connection.send(v3.frame(response))

    def _refuse(self, error: RhumblineError) -> None:
        self._service.meter.done(POLL, self._began, error)
        self._connection.send(v3.frame(v3.read_response(self._request, status_for(error))))
