"""The error and the log line of a query whose records were deleted before it read them."""

import logging
from collections.abc import Callable

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import GapError, InvalidPositionError

_LOG = logging.getLogger(__name__)


def data_loss_error(stream: str, start: Dlsn, end: Dlsn) -> GapError:
    """Return the error for [start, end); the query has the option ``failOnDataLoss=true``."""
    first, stop = start.in_stream(""), end.in_stream("")
    return GapError(
        f"stream {stream}: the records from {first} up to {stop} no longer exist: they were "
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
        start.in_stream(""),
        end.in_stream(""),
    )


def position_now(
    stream: str,
    position: Dlsn,
    stream_id: str,
    first: Callable[[], Dlsn],
    *,
    fails_on_data_loss: bool,
) -> Dlsn:
    """Return ``position`` with the id of the stream that has the name now (rule STR-32).

    If it is a position of another stream, whose records no longer exist, InvalidPositionError is
    raised, or with ``failOnDataLoss=false`` the query continues at ``first``.
    """
    try:
        position.check_stream(stream, stream_id)
    except InvalidPositionError:
        if fails_on_data_loss:
            raise
        _LOG.warning(
            "stream %s: continuing at its first record instead of %s, which is a position of "
            "another stream of this name (failOnDataLoss=false)",
            stream,
            position,
        )
        return first()
    return position.in_stream(stream_id or position.stream_id)
