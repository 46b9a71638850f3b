"""The error of a query whose records were deleted before it read them."""

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import GapError


def data_loss_error(stream: str, start: Dlsn, end: Dlsn) -> GapError:
    """Return the error for [start, end); the query has the option ``failOnDataLoss=true``."""
    return GapError(
        f"stream {stream}: the records from {start} up to {end} no longer exist: they were "
        "truncated, or their archive was deleted; set option failOnDataLoss=false to continue "
        "without them"
    )
