"""BookKeeper's v3 packets: protobuf messages for whatever is not an add or a read of the hot path.

A frame holds one ``Request`` or ``Response``; it always begins with 0x0a. Requests are answered in
any order and matched by their ``txn_id`` (and operation). A status is written twice, in the answer
and in its body: the outer one counts unless it is OK. Builders here do both.

``decode_*`` raise ProtocolError for bytes that are no such message. What parses may still be
refused: ``fault_of`` says with which status.
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
"""The priority that Apache's client gives to reads and adds of a recovery."""

TOTAL_BYTES_WANTED = 1
FREE_BYTES_WANTED = 2


class Status(IntEnum):
    """What a v3 answer says."""

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
    """What a request asks for."""

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


_REQUEST_FIELDS = {
    Operation.READ: "read_request",
    Operation.ADD: "add_request",
    Operation.AUTH: "auth_request",
    Operation.WRITE_LAC: "write_lac_request",
    Operation.READ_LAC: "read_lac_request",
    Operation.BOOKIE_INFO: "get_bookie_info_request",
    Operation.START_TLS: "start_tls_request",
    Operation.FORCE: "force_ledger_request",
    Operation.LIST_ENTRIES: "get_list_of_entries_request",
}
"""Operations that v3 has a message for. The others are refused with BAD_REQUEST."""


def frame(message: Message) -> bytes:
    """The message as a whole frame, length included."""
    data = message.SerializeToString()
    return LENGTH.pack(len(data)) + data


def decode_request(data: bytes) -> pb.Request:
    """The request in a frame without its length. Raises ProtocolError."""
    try:
        return parse(pb.Request, data)
    except DecodeError as error:
        raise ProtocolError(f"a v3 request of {len(data)} bytes does not parse") from error


def decode_response(data: bytes) -> pb.Response:
    """The answer in a frame without its length. Raises ProtocolError."""
    try:
        return parse(pb.Response, data)
    except DecodeError as error:
        raise ProtocolError(f"a v3 answer of {len(data)} bytes does not parse") from error


def fault_of(request: pb.Request) -> Status | None:
    """Why a request that parsed is refused before anybody looks at what it asks; None: it is not.

    BAD_VERSION: not version 3. BAD_REQUEST: v3 has no such operation, or the operation's message
    is missing (Apache's bookie takes it for ledger 0, entry 0: not to be copied), or an id or a
    key cannot be.
    """
    if request.header.version != pb.VERSION_THREE:
        return Status.BAD_VERSION
    field = _REQUEST_FIELDS.get(Operation(request.header.operation))
    if field is None or not request.HasField(field):
        return Status.BAD_REQUEST
    body = getattr(request, field)
    fields = body.DESCRIPTOR.fields_by_name
    if "ledger_id" in fields and body.ledger_id < 0:
        return Status.BAD_REQUEST
    if "master_key" in fields and body.HasField("master_key"):
        return None if len(body.master_key) == MASTER_KEY_BYTES else Status.UNAUTHORIZED
    return None


def status_of(response: pb.Response) -> int:
    """The status that counts: the outer one unless it is OK, else that of the body, if any."""
    if response.status != pb.EOK:
        return int(response.status)
    for _, value in response.ListFields():
        status = getattr(value, "status", None) if isinstance(value, Message) else None
        if status is not None:
            return int(status)
    return Status.OK


# --- requests -----------------------------------------------------------------------------------


def _request(operation: Operation, txn_id: int, priority: int = 0) -> pb.Request:
    header = pb.PacketHeader(
        version=pb.VERSION_THREE, operation=cast("pb.OperationType", int(operation)), txn_id=txn_id
    )
    if priority:
        header.priority = priority
    return pb.Request(header=header)


def add_request(
    txn_id: int,
    ledger_id: int,
    entry_id: int,
    master_key: bytes,
    entry: bytes,
    *,
    is_recovery: bool = False,
) -> pb.Request:
    """Store an entry; a recovery add passes fencing and has a high priority."""
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
    """Read an entry (-1: the last one), fencing the ledger first if a master key is given."""
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
    """Wait until the bookie's LAC is above ``previous_lac``, and bring the entry after it along."""
    request = _request(Operation.READ, txn_id)
    body = request.read_request
    body.ledger_id, body.entry_id = ledger_id, -1
    body.previous_lac, body.timeout_ms = previous_lac, timeout_ms
    body.flag = pb.ReadRequest.ENTRY_PIGGYBACK
    return request


def write_lac_request(
    txn_id: int, ledger_id: int, lac: int, master_key: bytes, body: bytes
) -> pb.Request:
    """Store an explicit LAC; ``body`` is what ``encode_lac`` made."""
    request = _request(Operation.WRITE_LAC, txn_id)
    message = request.write_lac_request
    message.ledger_id, message.lac = ledger_id, lac
    message.master_key, message.body = master_key, body
    return request


def read_lac_request(txn_id: int, ledger_id: int) -> pb.Request:
    """Read the last explicit LAC body and the last entry."""
    request = _request(Operation.READ_LAC, txn_id)
    request.read_lac_request.ledger_id = ledger_id
    return request


def force_request(txn_id: int, ledger_id: int) -> pb.Request:
    """Answer when all earlier adds of the ledger are durable."""
    request = _request(Operation.FORCE, txn_id)
    request.force_ledger_request.ledger_id = ledger_id
    return request


def list_entries_request(txn_id: int, ledger_id: int) -> pb.Request:
    """Which entries of the ledger are stored; the answer's form is in ``availability``."""
    request = _request(Operation.LIST_ENTRIES, txn_id)
    request.get_list_of_entries_request.ledger_id = ledger_id
    return request


def bookie_info_request(
    txn_id: int, requested: int = TOTAL_BYTES_WANTED | FREE_BYTES_WANTED
) -> pb.Request:
    """Capacity and free space of the bookie."""
    request = _request(Operation.BOOKIE_INFO, txn_id)
    request.get_bookie_info_request.requested = requested
    return request


def auth_request(txn_id: int, plugin: str, payload: bytes) -> pb.Request:
    """A message of an authentication plugin."""
    request = _request(Operation.AUTH, txn_id)
    request.auth_request.plugin, request.auth_request.payload = plugin.encode(), payload
    return request


def start_tls_request(txn_id: int) -> pb.Request:
    """Begin TLS on this connection once the answer says OK."""
    request = _request(Operation.START_TLS, txn_id)
    request.start_tls_request.SetInParent()
    return request


# --- answers ------------------------------------------------------------------------------------


def refusal(request: pb.Request, status: Status) -> pb.Response:
    """An answer without a body: unknown or malformed operations, no TLS."""
    header = pb.PacketHeader(
        version=pb.VERSION_THREE,
        operation=request.header.operation,
        txn_id=request.header.txn_id,
    )
    return pb.Response(header=header, status=cast("pb.StatusCode", int(status)))


def add_response(request: pb.Request, status: Status) -> pb.Response:
    """The outcome of an add."""
    response = refusal(request, status)
    asked = request.add_request
    body = response.add_response
    body.status, body.ledger_id, body.entry_id = response.status, asked.ledger_id, asked.entry_id
    return response


def with_status(response: pb.Response, status: Status) -> pb.Response:
    """An answer to an add, changed to tell another outcome."""
    response.status = cast("pb.StatusCode", int(status))
    response.add_response.status = response.status
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
    """The outcome of a read or long poll; ``entry_id`` is the one asked for unless given.

    ``lac_updated_ms``: when the LAC moved, in ms since the epoch, if the request waited for it.
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
    """The outcome of writing an explicit LAC."""
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
    """The last explicit LAC body, verbatim, and the last entry stored; either may be missing."""
    response = refusal(request, status)
    body = response.read_lac_response
    body.status, body.ledger_id = response.status, request.read_lac_request.ledger_id
    if lac_body is not None:
        body.lac_body = lac_body
    if last_entry is not None:
        body.last_entry_body = last_entry
    return response


def force_response(request: pb.Request, status: Status) -> pb.Response:
    """All adds before the request are durable."""
    response = refusal(request, status)
    body = response.force_ledger_response
    body.status, body.ledger_id = response.status, request.force_ledger_request.ledger_id
    return response


def list_entries_response(
    request: pb.Request, status: Status, availability: bytes | None = None
) -> pb.Response:
    """Which entries are stored, in the form of ``availability.encode``."""
    response = refusal(request, status)
    body = response.get_list_of_entries_response
    body.status, body.ledger_id = response.status, request.get_list_of_entries_request.ledger_id
    if availability is not None:
        body.availability = availability
    return response


def bookie_info_response(
    request: pb.Request, status: Status, *, total_bytes: int, free_bytes: int
) -> pb.Response:
    """Capacity and free space, of which only what was asked for is sent."""
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
    """The answer of an authentication plugin."""
    response = refusal(request, status)
    response.auth_response.plugin = plugin.encode()
    response.auth_response.payload = payload
    return response
