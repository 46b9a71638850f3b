"""Reasons why a ledger cannot be repaired at present (rule RPR-13)."""

from ...core.protocol.errors import UnavailableError


class RepairStuckError(UnavailableError):
    """The ledger stays unchanged and is retried later; the message names the missing condition."""

    code = "repair-stuck"


class NoCopyError(RepairStuckError):
    """No replica has a valid copy of an entry. It may come back with a bookie that is absent, or is
    lost."""

    code = "repair-no-copy"


class WaitingForWriterError(RepairStuckError):
    """The ledger is open and its writer may be alive. After ``left_ms`` of silence it counts as
    gone.

    Retry later: the writer rolls, or is taken over.
    """

    code = "repair-waits-for-writer"

    def __init__(self, message: str, left_ms: int = 0) -> None:
        super().__init__(message)
        self.left_ms = left_ms
