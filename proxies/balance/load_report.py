"""The load that a write proxy publishes about itself (rule PRX-30).

A report is bounded: it names the hottest streams and gives the sum over all. Rates are rounded, so
that a steady load gives equal reports.
"""

from collections.abc import Sequence
from heapq import nlargest
from math import floor, isfinite, log10
from typing import Any, NamedTuple

from ...core.protocol.errors import CorruptionError
from ...core.protocol.metadata_record import decode_metadata_record, encode_metadata_record

HOT_STREAMS_MAX = 32
"""Maximum number of streams that a report names."""

SET_BYTES = 16 * 1024
"""Bytes that count as much as one record set. Proxies handle sets, and copy their bytes."""

_FORMAT = 1
_HELD_MS_STEP = 5_000
_HELD_MS_MAX = 3_600_000


class BusyStream(NamedTuple):
    """One of the streams with the highest load at a proxy."""

    key: str
    """Namespace and name, as in ``stream_key``."""
    load: float
    """Record sets per second, plus one for each ``SET_BYTES`` per second."""
    held_ms: int
    """Time since the proxy took the stream over, at most an hour."""


class LoadReport(NamedTuple):
    """The load of one write proxy."""

    member_id: str
    address: str
    region: str
    load: float
    """The sum over all streams, in the unit of ``BusyStream.load``."""
    stream_count: int
    records_per_s: float
    bytes_per_s: float
    cpu_percent: int
    """CPU time of the process in percent of one core; its event loop can use 100."""
    queue_ms: int
    """Longest recent delay of the proxy's event loop."""
    hot: tuple[BusyStream, ...]
    """The hottest streams that may move, the hottest first."""

    def encode(self, sequence: int) -> bytes:
        """Encode the value of the report's node. ``sequence`` makes two values differ."""
        fields = {
            "sequence": sequence,
            "address": self.address,
            "region": self.region,
            "load": self.load,
            "streams": self.stream_count,
            "records": self.records_per_s,
            "bytes": self.bytes_per_s,
            "cpu": self.cpu_percent,
            "queue_ms": self.queue_ms,
            "hot": self.hot,
        }
        return encode_metadata_record(_FORMAT, fields)

    @classmethod
    def decode(cls, member_id: str, data: bytes) -> "LoadReport":
        """Decode the value of a report's node, also if a later program has added fields.

        Raises CorruptionError, ForeignDataError.
        """
        number = (int, float)
        name = f"load of proxy {member_id}"
        fields = decode_metadata_record(
            name,
            data,
            version=_FORMAT,
            fields={
                "sequence": int,
                "address": str,
                "region": str,
                "load": number,
                "streams": int,
                "records": number,
                "bytes": number,
                "cpu": int,
                "queue_ms": int,
                "hot": list,
            },
            ignores_unknown=True,
        )
        for field in ("load", "streams", "records", "bytes", "cpu", "queue_ms"):
            _check_quantity(name, field, fields[field])
        return cls(
            member_id,
            fields["address"],
            fields["region"],
            fields["load"],
            fields["streams"],
            fields["records"],
            fields["bytes"],
            fields["cpu"],
            fields["queue_ms"],
            tuple(_hot_stream(name, item) for item in fields["hot"]),
        )


def _hot_stream(name: str, item: Any) -> BusyStream:  # noqa: ANN401 - it is checked here
    match item:
        case [str(key), int() | float() as load, int(held_ms), *_] if not isinstance(
            load, bool
        ) and not isinstance(held_ms, bool):
            _check_quantity(name, "hot", load)
            _check_quantity(name, "hot", held_ms)
            return BusyStream(key, load, held_ms)
    raise CorruptionError(f"{name}: not a stream: {str(item)[:80]}")


def _check_quantity(name: str, field: str, value: float) -> None:
    """Raise CorruptionError unless a number is finite and not negative; JSON may hold others."""
    if not (isfinite(value) and value >= 0):
        raise CorruptionError(f"{name}: {field} is {value}, which is negative or not finite")


def hottest(streams: Sequence[BusyStream]) -> tuple[BusyStream, ...]:
    """Return the hottest streams that a report names, with rounded values."""
    found = nlargest(HOT_STREAMS_MAX, streams, key=lambda stream: (stream.load, stream.key))
    return tuple(
        BusyStream(stream.key, load, _rounded_held_ms(stream.held_ms))
        for stream in found
        if (load := rounded(stream.load)) > 0
    )


def rounded(value: float) -> float:
    """Return a rate with two significant digits; below 0.01 it is 0."""
    if value < 0.01:
        return 0.0
    return round(value, 1 - floor(log10(value)))


def _rounded_held_ms(held_ms: int) -> int:
    return min(held_ms - held_ms % _HELD_MS_STEP, _HELD_MS_MAX)
