"""What a query does when records that it should read are gone."""

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import GapError


def data_loss_error(stream: str, start: Dlsn, end: Dlsn) -> GapError:
    """The error of a query that must not lose data."""
    return GapError(
        f"stream {stream}: the records from {start} to {end} are gone (truncated, or their archive "
        "was deleted); option failOnDataLoss=false goes on without them"
    )
