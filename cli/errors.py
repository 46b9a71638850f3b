"""Errors that only the command line raises."""

from ..core.protocol.errors import RefusedError


class UnsafeError(RefusedError):
    """What was asked for could lose data; the message names the option that allows it."""

    code = "unsafe"
