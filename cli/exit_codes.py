"""The exit codes of all commands, and which error has which."""

from ..core.protocol.errors import (
    InvalidArgumentError,
    NoNodeError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NoSuchNamespaceError,
    NoSuchObjectError,
    NoSuchStreamError,
    NoSuchSubscriptionError,
    RhumblineError,
    StreamIdleError,
    TruncatedError,
    UnavailableError,
)
from .errors import ComparisonError, UnsafeError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNSAFE = 3
EXIT_ABSENT = 4
EXIT_UNAVAILABLE = 5
EXIT_INTERRUPTED = 130

EXIT_CODES = {
    0: "success",
    EXIT_FAILED: "failure, or a check found a fault; of `diff`: there are differences",
    EXIT_USAGE: "invalid usage: options, arguments, settings; of `diff`: any other failure",
    EXIT_UNSAFE: "refused because it is unsafe, or something is at risk under `--strict`",
    EXIT_ABSENT: "what the command names does not exist: a namespace, stream, ledger or position",
    EXIT_UNAVAILABLE: "not possible now, or not in time; the same command may succeed later",
    EXIT_INTERRUPTED: "interrupted",
}
"""The meaning of each exit code."""

_BY_ERROR: tuple[tuple[tuple[type[RhumblineError], ...], int], ...] = (
    ((UnsafeError,), EXIT_UNSAFE),
    ((InvalidArgumentError, ComparisonError), EXIT_USAGE),
    (
        (
            NoNodeError,
            NoSuchEntryError,
            NoSuchLedgerError,
            NoSuchNamespaceError,
            NoSuchObjectError,
            NoSuchStreamError,
            NoSuchSubscriptionError,
            TruncatedError,
        ),
        EXIT_ABSENT,
    ),
    ((StreamIdleError, UnavailableError), EXIT_UNAVAILABLE),
)


def exit_code_of(error: RhumblineError) -> int:
    """Return the exit code of a command that ended with this error."""
    return next((code for kinds, code in _BY_ERROR if isinstance(error, kinds)), EXIT_FAILED)
