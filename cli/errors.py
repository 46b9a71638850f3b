"""Errors that only the command line raises."""

from ..core.protocol.errors import RefusedError, RhumblineError


class UnsafeError(RefusedError):
    """The command could lose data; the message names the option that permits it."""

    code = "unsafe"


class ComparisonError(RhumblineError):
    """The cluster could not be compared with files; the message says why."""

    code = "not-compared"
