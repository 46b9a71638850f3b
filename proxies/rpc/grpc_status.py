"""Maps Rhumbline errors to gRPC statuses and back; no other module contains this mapping.

The status is for clients that know only gRPC. Rhumbline's clients read the error's own ``code``
from the status details (rule PRX-13).
"""

from google.protobuf.message import DecodeError

from ...core.protocol.dlsn import Dlsn, dlsn_in
from ...core.protocol.errors import (
    BadVersionError,
    CorruptionError,
    DeadlineExceededError,
    EndMismatchError,
    GapError,
    IndeterminateError,
    InvalidArgumentError,
    LimitExceededError,
    MetadataError,
    MetadataUnavailableError,
    NamespaceExistsError,
    NodeExistsError,
    NoNodeError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NoSuchNamespaceError,
    NoSuchObjectError,
    NoSuchStreamError,
    NotOwnerError,
    OverRateError,
    OwnershipLostError,
    ProtocolError,
    RefusedError,
    RhumblineError,
    SessionLostError,
    StreamExistsError,
    StreamIdleError,
    TooManyRequestsError,
    TruncatedError,
    UnauthorizedError,
    UnavailableError,
    UnknownOutcomeError,
    WrongPortError,
    error_classes,
)
from . import rhumbline_pb2 as pb

_STATUS_OF: dict[type[RhumblineError], str] = {
    RhumblineError: "INTERNAL",
    RefusedError: "FAILED_PRECONDITION",
    InvalidArgumentError: "INVALID_ARGUMENT",
    LimitExceededError: "RESOURCE_EXHAUSTED",
    NoSuchNamespaceError: "NOT_FOUND",
    NoSuchStreamError: "NOT_FOUND",
    NoSuchObjectError: "NOT_FOUND",
    NoSuchLedgerError: "NOT_FOUND",
    NoSuchEntryError: "NOT_FOUND",
    NoNodeError: "NOT_FOUND",
    NamespaceExistsError: "ALREADY_EXISTS",
    StreamExistsError: "ALREADY_EXISTS",
    NodeExistsError: "ALREADY_EXISTS",
    UnauthorizedError: "PERMISSION_DENIED",
    TruncatedError: "OUT_OF_RANGE",
    OwnershipLostError: "ABORTED",
    BadVersionError: "ABORTED",
    SessionLostError: "ABORTED",
    GapError: "DATA_LOSS",
    CorruptionError: "DATA_LOSS",
    UnavailableError: "UNAVAILABLE",
    TooManyRequestsError: "RESOURCE_EXHAUSTED",
    DeadlineExceededError: "DEADLINE_EXCEEDED",
    StreamIdleError: "DEADLINE_EXCEEDED",
    UnknownOutcomeError: "UNKNOWN",
    ProtocolError: "INTERNAL",
    MetadataError: "FAILED_PRECONDITION",
    MetadataUnavailableError: "UNAVAILABLE",
    IndeterminateError: "UNKNOWN",
}
"""gRPC status by error class; the nearest class in an error's ancestry decides."""

_CLASS_OF: dict[str, type[RhumblineError]] = {
    "CANCELLED": UnavailableError,
    "UNKNOWN": UnknownOutcomeError,
    "INVALID_ARGUMENT": InvalidArgumentError,
    "DEADLINE_EXCEEDED": DeadlineExceededError,
    "NOT_FOUND": RefusedError,
    "ALREADY_EXISTS": RefusedError,
    "PERMISSION_DENIED": UnauthorizedError,
    "UNAUTHENTICATED": UnauthorizedError,
    "RESOURCE_EXHAUSTED": TooManyRequestsError,
    "FAILED_PRECONDITION": RefusedError,
    "ABORTED": UnavailableError,
    "OUT_OF_RANGE": RefusedError,
    "UNIMPLEMENTED": RefusedError,
    "INTERNAL": UnavailableError,
    "UNAVAILABLE": UnavailableError,
    "DATA_LOSS": CorruptionError,
}
"""Error class of a status without details, sent by the transport or by a foreign server. A
transport that breaks while a message is being written reports INTERNAL."""

STATUSES = tuple(_CLASS_OF)
"""Names of the statuses that are errors."""

_ERRORS = error_classes()
_TYPE_URL = "type.googleapis.com/rhumbline.v1.Error"
DETAILS_KEY = "grpc-status-details-bin"


def status_name(error: RhumblineError) -> str:
    """Return the name of the gRPC status code for an error."""
    return next(_STATUS_OF[cls] for cls in type(error).__mro__ if cls in _STATUS_OF)


def error_of_status(name: str, text: str) -> RhumblineError:
    """Return the error for a status without details. Raises KeyError for OK."""
    return _CLASS_OF[name](text or name)


def encode_error(error: RhumblineError) -> pb.Error:
    """Encode an error as a message."""
    encoded = pb.Error(code=error.code, message=str(error), retryable=error.retryable)
    if isinstance(error, NotOwnerError):
        encoded.owner = error.owner
    if isinstance(error, WrongPortError):
        encoded.served_at = error.address
    if isinstance(error, OverRateError):
        encoded.retry_after_ms = error.retry_after_ms
    if isinstance(error, TruncatedError) and isinstance(error.first_active, Dlsn):
        encoded.first_active.CopyFrom(encode_position(error.first_active))
    if isinstance(error, EndMismatchError) and isinstance(error.end, Dlsn):
        encoded.end.CopyFrom(encode_position(error.end))
    return encoded


def decode_error(encoded: pb.Error) -> RhumblineError:
    """Decode an error from its message.

    A code that this version does not know keeps its retryability.
    """
    text = encoded.message
    cls = _ERRORS.get(encoded.code)
    if cls is None:
        known = UnavailableError if encoded.retryable else RefusedError
        return known(f"{encoded.code}: {text}")
    if cls is NotOwnerError:
        return NotOwnerError(text, encoded.owner)
    if cls is WrongPortError:
        return WrongPortError(text, encoded.served_at)
    if issubclass(cls, OverRateError):
        return cls(text, encoded.retry_after_ms)
    if cls is EndMismatchError:
        end = encoded.end
        return EndMismatchError(text, decode_position(end) if end.lssn else None)
    if cls is TruncatedError:
        found = encoded.first_active
        return TruncatedError(text, decode_position(found) if found.lssn else None)
    return cls(text)


def encode_details(error: RhumblineError, status: int) -> bytes:
    """Encode the ``DETAILS_KEY`` metadata; ``status`` is the number of the gRPC code."""
    detail = pb.DetailsAny(type_url=_TYPE_URL, value=encode_error(error).SerializeToString())
    details = pb.StatusDetails(code=status, message=str(error), details=[detail])
    return details.SerializeToString()


def decode_details(data: bytes) -> RhumblineError | None:
    """Decode what ``encode_details`` wrote; None if it holds no Rhumbline error.

    Raises ProtocolError.
    """
    try:
        for detail in pb.StatusDetails.FromString(data).details:
            if detail.type_url == _TYPE_URL:
                return decode_error(pb.Error.FromString(detail.value))
    except (ValueError, DecodeError) as error:
        raise ProtocolError(f"status details cannot be decoded: {error}") from error
    return None


def encode_position(position: Dlsn) -> pb.Position:
    """Encode a position as a message."""
    return pb.Position(
        lssn=position.lssn,
        entry_id=position.entry_id,
        slot=position.slot,
        stream_id=position.stream_id,
    )


def decode_position(position: pb.Position) -> Dlsn:
    """Decode a position. Raises InvalidArgumentError for a negative part."""
    found = dlsn_in(position.stream_id, position.lssn, position.entry_id, position.slot)
    if min(found) < 0:
        raise InvalidArgumentError(f"DLSN {found} has a negative part")
    return found


def is_retryable(error: RhumblineError) -> bool:
    """Return whether a repeatable request may be sent again, here or to another proxy (PRX-13)."""
    return error.retryable or isinstance(error, OwnershipLostError | UnknownOutcomeError)
