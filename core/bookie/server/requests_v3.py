"""Requests and responses in the v3 form (protobuf)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.errors import (
    NoSuchEntryError,
    NoSuchLedgerError,
    ProtocolError,
    RefusedError,
    RhumblineError,
    UnauthorizedError,
)
from ...protocol.ledger_metadata import NO_ENTRY
from ...wire import availability, v3
from ...wire import bookkeeper_pb2 as pb
from ...wire.entry import ENTRY_HEADER, ENTRY_HEADER_BYTES
from ...wire.error_codes import status_for
from .authentication import authenticate
from .long_poll import Poll
from .long_poll_v3 import PiggybackPoll, PlainPoll
from .operation_meter import LIST_ENTRIES, POLL, READ_LAC
from .requests import EntryAdd, EntryRead, RequestConnection, WriteLac

if TYPE_CHECKING:
    from .connection import ClientConnection
    from .entry_service import EntryService

OK = v3.Status.OK


def serve(connection: "ClientConnection", service: "EntryService", frame: bytes) -> None:
    """Serves one v3 frame. Raises ProtocolError if it cannot be decoded."""
    request = v3.decode_request(frame)
    fault = v3.rejection_status(request)
    if fault is not None:
        connection.send(v3.frame(v3.refusal(request, fault)))
        return
    _HANDLERS[request.header.operation](connection, service, request)


# --- adds and reads -----------------------------------------------------------------------------


class _Add(EntryAdd):
    __slots__ = ("_request",)

    def __init__(self, connection: RequestConnection, request: pb.Request) -> None:
        body = request.add_request
        super().__init__(
            connection,
            body.ledger_id,
            body.master_key,
            body.body,
            is_recovery=_is_recovery(body),
        )
        self._request = request
        body.ClearField("body")  # the request waits for its response without the entry

    def response(self, error: RhumblineError | None) -> bytes:
        status = OK if error is None else status_for(error)
        return v3.frame(v3.add_response(self._request, status))


def _add(connection: "ClientConnection", service: "EntryService", request: pb.Request) -> None:
    body = request.add_request
    if not _is_entry_of(body.body, body.ledger_id, body.entry_id, is_recovery=_is_recovery(body)):
        connection.send(v3.frame(v3.add_response(request, v3.Status.BAD_REQUEST)))
        return
    service.add(_Add(connection, request))


def _is_recovery(body: pb.AddRequest) -> bool:
    return body.flag == pb.AddRequest.RECOVERY_ADD and body.HasField("flag")


def _is_entry_of(entry: bytes, ledger_id: int, entry_id: int, *, is_recovery: bool) -> bool:
    """Return whether the bytes begin with a valid header of this entry (rule BKE-8)."""
    if len(entry) < ENTRY_HEADER_BYTES or entry_id < 0:
        return False
    ledger, number, lac, length = ENTRY_HEADER.unpack_from(entry)
    if (ledger, number) != (ledger_id, entry_id) or length < 0:
        return False
    return lac >= NO_ENTRY and (is_recovery or lac < number)


class _Read(EntryRead):
    __slots__ = ("_request", "_service")

    def __init__(
        self, connection: RequestConnection, service: "EntryService", request: pb.Request
    ) -> None:
        body = request.read_request
        is_fencing = body.HasField("flag") and body.flag == pb.ReadRequest.FENCE_LEDGER
        super().__init__(
            connection, body.ledger_id, body.entry_id, body.master_key, is_fencing=is_fencing
        )
        self._request = request
        self._service = service

    def response(self, error: RhumblineError | None, entry: bytes = b"") -> bytes:
        if error is not None:
            return v3.frame(v3.read_response(self._request, status_for(error)))
        ledger = None if self.is_fencing else self._service.ledgers.get(self.ledger_id)
        lac = None if ledger is None else ledger.lac
        return v3.frame(v3.read_response(self._request, OK, entry, max_lac=lac))


def _read(connection: "ClientConnection", service: "EntryService", request: pb.Request) -> None:
    body = request.read_request
    is_piggyback = body.HasField("flag") and body.flag == pb.ReadRequest.ENTRY_PIGGYBACK
    if body.entry_id < NO_ENTRY or (is_piggyback and body.entry_id != NO_ENTRY):
        connection.send(v3.frame(v3.read_response(request, v3.Status.BAD_REQUEST)))
        return
    read = _Read(connection, service, request)
    if read.is_fencing or not body.HasField("previous_lac"):
        service.read(read)
        return
    poll: Poll = (
        PiggybackPoll(connection, service, request)
        if is_piggyback
        else PlainPoll(service, read, request)
    )
    try:
        service.poll(poll, connection.polls)
    except RhumblineError as error:
        service.meter.done(POLL, service.meter.now(), error)
        connection.send(read.response(error))


# --- LAC ----------------------------------------------------------------------------------------


class _WriteLac(WriteLac):
    __slots__ = ("_request",)

    def __init__(self, connection: RequestConnection, request: pb.Request) -> None:
        body = request.write_lac_request
        super().__init__(connection, body.ledger_id, body.master_key, body.body)
        self._request = request

    def response(self, error: RhumblineError | None) -> bytes:
        status = OK if error is None else status_for(error)
        return v3.frame(v3.write_lac_response(self._request, status))


def _write_lac(
    connection: "ClientConnection", service: "EntryService", request: pb.Request
) -> None:
    service.write_lac(_WriteLac(connection, request))


class _LacReading:
    """A READ_LAC request, whose response holds the last explicit LAC and the ledger's last entry.

    A client counts an OK and a denial as "no higher LAC is durable here". Neither is sent if the
    last entry cannot be read, or if the ledger is in limbo (rule BKE-13).
    """

    __slots__ = ("_connection", "_request", "_service", "directory", "is_urgent")

    def __init__(
        self, connection: "ClientConnection", service: "EntryService", request: pb.Request
    ) -> None:
        self._connection = connection
        self._service = service
        self._request = request
        self.directory = ""
        self.is_urgent = False

    async def run(self) -> None:
        began = self._service.meter.now()
        failure: RhumblineError | None = None
        ledger_id = self._request.read_lac_request.ledger_id
        ledger = self._service.ledgers.get(ledger_id)
        body = ledger.lac_body if ledger is not None and ledger.lac_body else None
        entry: bytes | None = None
        status = OK
        try:
            entry = await self._service.fetch(self, self._connection, ledger_id, NO_ENTRY)
            if entry is None:
                return  # it runs again, in the directory of the entry
        except (NoSuchEntryError, NoSuchLedgerError):
            # Apache's bookie responds "no entry" here for an unknown ledger too.
            status = v3.Status.NO_ENTRY if body is None else OK
        except RhumblineError as error:
            status, body, failure = status_for(error), None, error
        self._service.meter.done(READ_LAC, began, failure)
        response = v3.read_lac_response(self._request, status, lac_body=body, last_entry=entry)
        self._connection.send(v3.frame(response))


def _read_lac(connection: "ClientConnection", service: "EntryService", request: pb.Request) -> None:
    connection.enqueue_read(_LacReading(connection, service, request))


# --- other operations ---------------------------------------------------------------------------


def _force(connection: "ClientConnection", service: "EntryService", request: pb.Request) -> None:
    def durable(error: RhumblineError | None) -> None:
        status = OK if error is None else status_for(error)
        connection.send(v3.frame(v3.force_response(request, status)))

    service.storage.when_durable(durable)


class _EntryListing:
    """A request for the list of a ledger's entries on this bookie, which the index has."""

    __slots__ = ("_connection", "_request", "_service", "directory", "is_urgent")

    def __init__(
        self, connection: "ClientConnection", service: "EntryService", request: pb.Request
    ) -> None:
        self._connection = connection
        self._service = service
        self._request = request
        self.directory = ""
        self.is_urgent = False

    async def run(self) -> None:
        began = self._service.meter.now()
        failure: RhumblineError | None = None
        ledger_id = self._request.get_list_of_entries_request.ledger_id
        try:
            entry_ids = await self._service.entry_ids(ledger_id)
            response = v3.list_entries_response(
                self._request, OK, availability.encode(availability.runs_of(entry_ids))
            )
        except RhumblineError as error:
            failure = error
            response = v3.list_entries_response(self._request, status_for(error))
        self._service.meter.done(LIST_ENTRIES, began, failure)
        self._connection.send(v3.frame(response))


def _list_entries(
    connection: "ClientConnection", service: "EntryService", request: pb.Request
) -> None:
    connection.enqueue_read(_EntryListing(connection, service, request))


def _info(connection: "ClientConnection", service: "EntryService", request: pb.Request) -> None:
    space = service.space
    response = v3.bookie_info_response(
        request, OK, total_bytes=space.total_bytes, free_bytes=space.free_bytes
    )
    connection.send(v3.frame(response))


def _auth(connection: "ClientConnection", service: "EntryService", request: pb.Request) -> None:
    body = request.auth_request
    try:
        plugin = body.plugin.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError("the name of the authentication plugin is not UTF-8") from error
    response = authenticate(plugin, body.payload, service.bookie)
    status = (
        OK
        if response.is_accepted
        else status_for(UnauthorizedError("the client wants another bookie"))
    )
    message = v3.auth_response(request, status, response.plugin, response.payload)
    connection.send(v3.frame(message))
    if not response.is_accepted:
        connection.close("other-bookie-wanted")


def _start_tls(
    connection: "ClientConnection", service: "EntryService", request: pb.Request
) -> None:
    status = status_for(RefusedError("TLS begins with the first request, if at all (BKE-32)"))
    connection.send(v3.frame(v3.refusal(request, status)))


_HANDLERS: dict[int, Callable[["ClientConnection", "EntryService", pb.Request], None]] = {
    v3.Operation.ADD: _add,
    v3.Operation.READ: _read,
    v3.Operation.WRITE_LAC: _write_lac,
    v3.Operation.READ_LAC: _read_lac,
    v3.Operation.FORCE: _force,
    v3.Operation.LIST_ENTRIES: _list_entries,
    v3.Operation.BOOKIE_INFO: _info,
    v3.Operation.AUTH: _auth,
    v3.Operation.START_TLS: _start_tls,
}
