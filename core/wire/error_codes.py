"""Mapping between errors and the codes of v2 responses and statuses of v3 responses.

Two properties matter for safety (rule BKE-1). An unknown code means UnknownStateError and never
counts as a "no". Only NoSuchLedgerError and NoSuchEntryError are sent as a "no"; an error without a
row of its own is sent as IO, which proves nothing to the receiver.
"""

from ..protocol.errors import (
    ClosedError,
    DiskFullError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    OwnershipLostError,
    ProtocolError,
    ReadOnlyError,
    RefusedError,
    RhumblineError,
    TooManyRequestsError,
    UnauthorizedError,
    UnknownStateError,
)
from .v2 import Code
from .v3 import Status

_MEANING: dict[str, type[RhumblineError] | None] = {
    "OK": None,
    "NO_LEDGER": NoSuchLedgerError,
    "NO_ENTRY": NoSuchEntryError,
    "BAD_REQUEST": RefusedError,
    "IO": UnknownStateError,
    "UNAUTHORIZED": UnauthorizedError,
    "BAD_VERSION": ProtocolError,
    "FENCED": LedgerFencedError,
    "READ_ONLY": ReadOnlyError,
    "TOO_MANY_REQUESTS": TooManyRequestsError,
    "UNKNOWN_STATE": UnknownStateError,
}
"""Errors by the name that ``Code`` and ``Status`` share."""

_SENT_AS: dict[type[RhumblineError], str] = {
    NoSuchLedgerError: "NO_LEDGER",
    NoSuchEntryError: "NO_ENTRY",
    RefusedError: "BAD_REQUEST",
    ProtocolError: "BAD_REQUEST",
    ClosedError: "IO",  # the bookie is shutting down, which proves nothing about the request
    UnauthorizedError: "UNAUTHORIZED",
    OwnershipLostError: "FENCED",
    ReadOnlyError: "READ_ONLY",
    DiskFullError: "READ_ONLY",
    TooManyRequestsError: "TOO_MANY_REQUESTS",
    UnknownStateError: "UNKNOWN_STATE",
    RhumblineError: "IO",
}
"""Names by error class; the nearest base class of an error decides."""

ERROR_OF_CODE: dict[int, type[RhumblineError] | None] = {c: _MEANING[c.name] for c in Code}
ERROR_OF_STATUS: dict[int, type[RhumblineError] | None] = {s: _MEANING[s.name] for s in Status}


def error_of_code(code: int) -> type[RhumblineError] | None:
    """Return the error of a v2 code; None for OK, UnknownStateError for an unknown number."""
    return ERROR_OF_CODE.get(code, UnknownStateError)


def error_of_status(status: int) -> type[RhumblineError] | None:
    """Return the error of a v3 status; None for OK, UnknownStateError for an unknown number."""
    return ERROR_OF_STATUS.get(status, UnknownStateError)


def _name_for(error: type[RhumblineError]) -> str:
    return next(_SENT_AS[cls] for cls in error.__mro__ if cls in _SENT_AS)


def code_for(error: RhumblineError) -> Code:
    """Return the v2 code of an error; IO instead of UNKNOWN_STATE (see ``Code``)."""
    code = Code[_name_for(type(error))]
    return Code.IO if code is Code.UNKNOWN_STATE else code


def status_for(error: RhumblineError) -> Status:
    """Return the v3 status of an error."""
    return Status[_name_for(type(error))]
