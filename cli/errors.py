"""Errors that only the command line raises."""

from ..core.protocol.errors import RefusedError


class UnsafeError(RefusedError):
    """The command could lose data; the message names the option that permits it."""

    code = "unsafe"
