"""BookKeeper's v3 packets: protobuf messages for all requests outside the hot path.

A frame holds one ``Request`` or ``Response`` and always begins with 0x0a. Responses come in any
order; ``txn_id`` and operation match them with their requests. A response has two statuses, in the
message and in its body. The outer one counts unless it is OK; the builders here set both.

``decode_*`` raise ProtocolError for bytes that do not parse. A request that parses may still be
refused: see ``rejection_status``.
"""

from enum import IntEnum
from typing import cast

from google.protobuf.message import DecodeError, Message

from ..protocol.errors import ProtocolError
from . import bookkeeper_pb2 as pb
from .entry import MASTER_KEY_BYTES
from .frames import LENGTH
from .protobuf_parsing import parse

FIRST_BYTE = b"\x0a"
HIGH_PRIORITY = 100
"""The priority that Apache's client gives to the reads and adds of a recovery."""

TOTAL_BYTES_WANTED = 1
FREE_BYTES_WANTED = 2


class Status(IntEnum):
    """The outcome in a v3 response."""

    OK = 0
    NO_LEDGER = 402
    NO_ENTRY = 403
    BAD_REQUEST = 404
    IO = 501
    UNAUTHORIZED = 502
    BAD_VERSION = 503
    FENCED = 504
    READ_ONLY = 505
    TOO_MANY_REQUESTS = 506
    UNKNOWN_STATE = 507


class Operation(IntEnum):
    """The operation of a request."""

    READ = 1
    ADD = 2
    RANGE_READ = 3
    RANGE_ADD = 4
    AUTH = 5
    WRITE_LAC = 6
    READ_LAC = 7
    BOOKIE_INFO = 8
    START_TLS = 9
    FORCE = 10
    LIST_ENTRIES = 11
    BATCH_READ = 12


_BODIES = {
    Operation.READ: "read",
    Operation.ADD: "add",
    Operation.AUTH: "auth",
    Operation.WRITE_LAC: "write_lac",
    Operation.READ_LAC: "read_lac",
    Operation.BOOKIE_INFO: "get_bookie_info",
    Operation.START_TLS: "start_tls",
    Operation.FORCE: "force_ledger",
    Operation.LIST_ENTRIES: "get_list_of_entries",
}
"""The operations that have v3 messages, and how the fields of these begin. Any other operation is
refused with BAD_REQUEST."""


def _has(kind: type[Message], body: str, field: str) -> bool:
    """Return whether a body has a field. Reflection is slow, so it is used only at import."""
    message = kind.DESCRIPTOR.fields_by_name[body].message_type
    assert message is not None
    return field in message.fields_by_name


_REQUEST_BODIES: dict[int, str] = {
    operation: f"{name}_request" for operation, name in _BODIES.items()
}
_WITH_LEDGER_ID = {b for b in _REQUEST_BODIES.values() if _has(pb.Request, b, "ledger_id")}
_WITH_MASTER_KEY = {b for b in _REQUEST_BODIES.values() if _has(pb.Request, b, "master_key")}
_STATUS_BODIES: dict[int, str] = {
    operation: f"{name}_response"
    for operation, name in _BODIES.items()
    if _has(pb.Response, f"{name}_response", "status")
}


def frame(message: Message) -> bytes:
    """Encode a message as a whole frame, length included."""
    data = message.SerializeToString()
    return LENGTH.pack(len(data)) + data


def decode_request(data: bytes) -> pb.Request:
    """Decode the request in a frame without its length. Raises ProtocolError."""
    try:
        return parse(pb.Request, data)
    except DecodeError as error:
        raise ProtocolError(f"v3 request of {len(data)} bytes does not parse") from error


def decode_response(data: bytes) -> pb.Response:
    """Decode the response in a frame without its length. Raises ProtocolError."""
    try:
        return parse(pb.Response, data)
    except DecodeError as error:
        raise ProtocolError(f"v3 response of {len(data)} bytes does not parse") from error


def rejection_status(request: pb.Request) -> Status | None:
    """Return the status with which a parsed request is refused unprocessed; None to process it.

    BAD_VERSION: the version is not 3. BAD_REQUEST: the operation is unknown, its message is missing
    (Apache's bookie takes that for ledger 0, entry 0, which is not imitated), or the ledger id is
    negative. UNAUTHORIZED: the master key has the wrong size.
    """
    if request.header.version != pb.VERSION_THREE:
        return Status.BAD_VERSION
    field = _REQUEST_BODIES.get(request.header.operation)
    if field is None or not request.HasField(field):
        return Status.BAD_REQUEST
    body = getattr(request, field)
    if field in _WITH_LEDGER_ID and body.ledger_id < 0:
        return Status.BAD_REQUEST
    if field in _WITH_MASTER_KEY and body.HasField("master_key"):
        return None if len(body.master_key) == MASTER_KEY_BYTES else Status.UNAUTHORIZED
    return None


def status_of(response: pb.Response) -> int:
    """Return the effective status: the outer one unless it is OK, else the status of the body."""
    if response.status != pb.EOK:
        return int(response.status)
    field = _STATUS_BODIES.get(response.header.operation)
    if field is not None and response.HasField(field):
        return int(getattr(response, field).status)
    for _, value in response.ListFields():  # the body is missing, or that of another operation
        status = getattr(value, "status", None) if isinstance(value, Message) else None
        if status is not None:
            return int(status)
    return Status.OK


# --- requests -----------------------------------------------------------------------------------


def _request(operation: Operation, txn_id: int, priority: int = 0) -> pb.Request:
    request = pb.Request()  # fields are set one by one, because keyword arguments are slow
    header = request.header
    header.version, header.txn_id = pb.VERSION_THREE, txn_id
    header.operation = cast("pb.OperationType", int(operation))
    if priority:
        header.priority = priority
    return request


def add_request(
    txn_id: int,
    ledger_id: int,
    entry_id: int,
    master_key: bytes,
    entry: bytes,
    *,
    is_recovery: bool = False,
) -> pb.Request:
    """Build a request to store an entry; a recovery add passes a fence and has a high priority."""
    request = _request(Operation.ADD, txn_id, HIGH_PRIORITY if is_recovery else 0)
    body = request.add_request
    body.ledger_id, body.entry_id = ledger_id, entry_id
    body.master_key, body.body = master_key, entry
    if is_recovery:
        body.flag = pb.AddRequest.RECOVERY_ADD
    return request


def read_request(
    txn_id: int,
    ledger_id: int,
    entry_id: int,
    *,
    fence_key: bytes | None = None,
    priority: int = 0,
) -> pb.Request:
    """Build a request to read an entry (-1: the last one); with a master key it fences first."""
    request = _request(Operation.READ, txn_id, priority)
    body = request.read_request
    body.ledger_id, body.entry_id = ledger_id, entry_id
    if fence_key is not None:
        body.master_key = fence_key
        body.flag = pb.ReadRequest.FENCE_LEDGER
    return request


def long_poll_request(
    txn_id: int, ledger_id: int, *, previous_lac: int, timeout_ms: int
) -> pb.Request:
    """Build a request that waits for a LAC above ``previous_lac`` and reads the entry after it."""
    request = _request(Operation.READ, txn_id)
    body = request.read_request
    body.ledger_id, body.entry_id = ledger_id, -1
    body.previous_lac, body.timeout_ms = previous_lac, timeout_ms
    body.flag = pb.ReadRequest.ENTRY_PIGGYBACK
    return request


def write_lac_request(
    txn_id: int, ledger_id: int, lac: int, master_key: bytes, body: bytes
) -> pb.Request:
    """Build a request to store an explicit LAC; ``body`` comes from ``encode_lac``."""
    request = _request(Operation.WRITE_LAC, txn_id)
    message = request.write_lac_request
    message.ledger_id, message.lac = ledger_id, lac
    message.master_key, message.body = master_key, body
    return request


def read_lac_request(txn_id: int, ledger_id: int) -> pb.Request:
    """Build a request to read the last explicit LAC body and the last entry."""
    request = _request(Operation.READ_LAC, txn_id)
    request.read_lac_request.ledger_id = ledger_id
    return request


def force_request(txn_id: int, ledger_id: int) -> pb.Request:
    """Build a request that completes once all earlier adds of the ledger are durable."""
    request = _request(Operation.FORCE, txn_id)
    request.force_ledger_request.ledger_id = ledger_id
    return request


def list_entries_request(txn_id: int, ledger_id: int) -> pb.Request:
    """Build a request to list the stored entries of a ledger (see ``availability``)."""
    request = _request(Operation.LIST_ENTRIES, txn_id)
    request.get_list_of_entries_request.ledger_id = ledger_id
    return request


def bookie_info_request(
    txn_id: int, requested: int = TOTAL_BYTES_WANTED | FREE_BYTES_WANTED
) -> pb.Request:
    """Build a request for the capacity and free space of the bookie."""
    request = _request(Operation.BOOKIE_INFO, txn_id)
    request.get_bookie_info_request.requested = requested
    return request


def auth_request(txn_id: int, plugin: str, payload: bytes) -> pb.Request:
    """Build a message of an authentication plugin."""
    request = _request(Operation.AUTH, txn_id)
    request.auth_request.plugin, request.auth_request.payload = plugin.encode(), payload
    return request


def start_tls_request(txn_id: int) -> pb.Request:
    """Build a request to begin TLS on this connection after a response with OK."""
    request = _request(Operation.START_TLS, txn_id)
    request.start_tls_request.SetInParent()
    return request


# --- responses ----------------------------------------------------------------------------------


def refusal(request: pb.Request, status: Status) -> pb.Response:
    """Build a response without a body, e.g. for unknown operations or missing TLS."""
    response = pb.Response()
    header, asked = response.header, request.header
    header.version, header.operation = pb.VERSION_THREE, asked.operation
    header.txn_id = asked.txn_id
    response.status = cast("pb.StatusCode", int(status))
    return response


def add_response(request: pb.Request, status: Status) -> pb.Response:
    """Build the response to an add."""
    response = refusal(request, status)
    requested = request.add_request
    body = response.add_response
    body.status, body.ledger_id, body.entry_id = (
        response.status,
        requested.ledger_id,
        requested.entry_id,
    )
    return response


def read_response(
    request: pb.Request,
    status: Status,
    body: bytes | None = None,
    *,
    entry_id: int | None = None,
    max_lac: int | None = None,
    lac_updated_ms: int | None = None,
) -> pb.Response:
    """Build the response to a read or long poll; ``entry_id`` defaults to the requested one.

    ``lac_updated_ms`` is the time at which the LAC advanced, in ms since the epoch, if the request
    waited for that.
    """
    response = refusal(request, status)
    answer = response.read_response
    answer.status, answer.ledger_id = response.status, request.read_request.ledger_id
    answer.entry_id = request.read_request.entry_id if entry_id is None else entry_id
    if body is not None:
        answer.body = body
    if max_lac is not None:
        answer.max_lac = max_lac
    if lac_updated_ms is not None:
        answer.lac_updated_ms = lac_updated_ms
    return response


def write_lac_response(request: pb.Request, status: Status) -> pb.Response:
    """Build the response to the write of an explicit LAC."""
    response = refusal(request, status)
    body = response.write_lac_response
    body.status, body.ledger_id = response.status, request.write_lac_request.ledger_id
    return response


def read_lac_response(
    request: pb.Request,
    status: Status,
    *,
    lac_body: bytes | None = None,
    last_entry: bytes | None = None,
) -> pb.Response:
    """Build a response with the explicit LAC body, verbatim, and the last entry, if they exist."""
    response = refusal(request, status)
    body = response.read_lac_response
    body.status, body.ledger_id = response.status, request.read_lac_request.ledger_id
    if lac_body is not None:
        body.lac_body = lac_body
    if last_entry is not None:
        body.last_entry_body = last_entry
    return response


def force_response(request: pb.Request, status: Status) -> pb.Response:
    """Build the response to a force request: all adds before it are durable."""
    response = refusal(request, status)
    body = response.force_ledger_response
    body.status, body.ledger_id = response.status, request.force_ledger_request.ledger_id
    return response


def list_entries_response(
    request: pb.Request, status: Status, availability: bytes | None = None
) -> pb.Response:
    """Build a response with the stored entries, as ``availability.encode`` encodes them."""
    response = refusal(request, status)
    body = response.get_list_of_entries_response
    body.status, body.ledger_id = response.status, request.get_list_of_entries_request.ledger_id
    if availability is not None:
        body.availability = availability
    return response


def bookie_info_response(
    request: pb.Request, status: Status, *, total_bytes: int, free_bytes: int
) -> pb.Response:
    """Build a response with the requested ones of capacity and free space."""
    response = refusal(request, status)
    body = response.get_bookie_info_response
    body.status = response.status
    requested = request.get_bookie_info_request.requested
    if requested & TOTAL_BYTES_WANTED:
        body.total_bytes = total_bytes
    if requested & FREE_BYTES_WANTED:
        body.free_bytes = free_bytes
    return response


def auth_response(request: pb.Request, status: Status, plugin: str, payload: bytes) -> pb.Response:
    """Build the response of an authentication plugin."""
    response = refusal(request, status)
    response.auth_response.plugin = plugin.encode()
    response.auth_response.payload = payload
    return response
