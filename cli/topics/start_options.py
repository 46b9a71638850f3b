"""Start positions in options: ``earliest``, a position, a txid, or a time."""

from ...client.system_runtime import system_runtime
from ...client.units import parse_time_ms
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import InvalidArgumentError
from ...core.protocol.record_set import TXID_FIRST, TXID_LAST
from ...core.protocol.start import EARLIEST, LATEST, AtEventTime, AtTime, AtTxid, Start

START_HELP = (
    "earliest, latest, a DLSN, txid:N, time:TIME (created then or later) or event-time:TIME. TIME "
    "is ISO 8601 (without a zone: UTC), ms since 1970, or for example `15m ago`"
)
"""Help text of an option that takes a start position, without its end."""


def parse_start(text: str) -> Start:
    """Parse a start position, see ``START_HELP``. Raises InvalidArgumentError."""
    if text == "earliest":
        return EARLIEST
    if text == "latest":
        return LATEST
    kind, _, value = text.partition(":")
    if kind == "txid":
        if not value.isdigit() or not TXID_FIRST <= int(value) <= TXID_LAST:
            raise InvalidArgumentError(
                f"{text!r}: a txid is a number from {TXID_FIRST} to {TXID_LAST}"
            )
        return AtTxid(int(value))
    if kind == "time":
        return AtTime(parse_time(value))
    if kind == "event-time":
        return AtEventTime(parse_time(value))
    return Dlsn.parse(text)


def parse_time(text: str) -> int:
    """Return a time of day in ms since the Unix epoch. Raises InvalidArgumentError."""
    return parse_time_ms(text, system_runtime().clock.wall_ms())
