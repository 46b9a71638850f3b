"""The error and the log line of a query whose records were deleted before it read them."""

import logging

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import GapError

_LOG = logging.getLogger(__name__)


def data_loss_error(stream: str, start: Dlsn, end: Dlsn) -> GapError:
    """Return the error for [start, end); the query has the option ``failOnDataLoss=true``."""
    return GapError(
        f"stream {stream}: the records from {start} up to {end} no longer exist: they were "
        "truncated, or their archive was deleted; set option failOnDataLoss=false to continue "
        "without them"
    )


def log_data_loss(stream: str, start: Dlsn, end: Dlsn) -> None:
    """Log that a query with ``failOnDataLoss=false`` continues without the records in [start, end).

    The line is in the log of the driver, or of the executor that found the loss.
    """
    _LOG.warning(
        "stream %s: continuing without the records from %s up to %s, which no longer exist "
        "(failOnDataLoss=false)",
        stream,
        start,
        end,
    )
