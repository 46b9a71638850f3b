"""Which error a v2 code or a v3 status means, and which code or status tells of an error.

Two readings matter for safety. A code that we do not know means UnknownStateError: it never counts
as "no". And of our own errors only NoSuchLedgerError and NoSuchEntryError are ever sent as a "no";
whatever has no line of its own is sent as IO, which the other side may not count as anything.
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
"""By the name that both enums share."""

_SENT_AS: dict[type[RhumblineError], str] = {
    NoSuchLedgerError: "NO_LEDGER",
    NoSuchEntryError: "NO_ENTRY",
    RefusedError: "BAD_REQUEST",
    ProtocolError: "BAD_REQUEST",
    ClosedError: "IO",  # the bookie is going down: that says nothing about the request
    UnauthorizedError: "UNAUTHORIZED",
    OwnershipLostError: "FENCED",
    ReadOnlyError: "READ_ONLY",
    DiskFullError: "READ_ONLY",
    TooManyRequestsError: "TOO_MANY_REQUESTS",
    UnknownStateError: "UNKNOWN_STATE",
    RhumblineError: "IO",
}
"""The nearest class of an error's ancestry decides."""

ERROR_OF_CODE: dict[int, type[RhumblineError] | None] = {c: _MEANING[c.name] for c in Code}
ERROR_OF_STATUS: dict[int, type[RhumblineError] | None] = {s: _MEANING[s.name] for s in Status}


def error_of_code(code: int) -> type[RhumblineError] | None:
    """What a v2 code means; None for OK, UnknownStateError for a number that we do not know."""
    return ERROR_OF_CODE.get(code, UnknownStateError)


def error_of_status(status: int) -> type[RhumblineError] | None:
    """What a v3 status means; None for OK, UnknownStateError for a number that we do not know."""
    return ERROR_OF_STATUS.get(status, UnknownStateError)


def _name_for(error: type[RhumblineError]) -> str:
    return next(_SENT_AS[cls] for cls in error.__mro__ if cls in _SENT_AS)


def code_for(error: RhumblineError) -> Code:
    """The v2 code that tells of an error. Never UNKNOWN_STATE: Java's v2 client hangs up on it."""
    code = Code[_name_for(type(error))]
    return Code.IO if code is Code.UNKNOWN_STATE else code


def status_for(error: RhumblineError) -> Status:
    """The v3 status that tells of an error."""
    return Status[_name_for(type(error))]
