"""Why a ledger cannot be mended now."""

from ...core.protocol.errors import UnavailableError


class RepairStuckError(UnavailableError):
    """The ledger is left as it is, and tried again later; the message says what it waits for."""

    code = "repair-stuck"


class NoCopyError(RepairStuckError):
    """No bookie that should have it has a good copy of some entry: it comes back with a bookie, or
    not at all."""

    code = "repair-no-copy"
