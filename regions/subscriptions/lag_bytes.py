"""The bytes of the records that a subscription has not passed, from the statistics of segments."""

from collections.abc import Sequence

from ...core.log.api.log_namespace import LogNamespace
from ...core.protocol.errors import RhumblineError
from ...core.protocol.segments import Segment
from .stream_lag import Lag, StreamCount


async def measure_bytes(
    namespace: LogNamespace, stream: str, lags: Sequence[Lag], count: StreamCount | None
) -> list[int | None]:
    """Return how many bytes the records of each lag of a stream have; None if that is not known.

    ``count`` is that of the whole stream, with which the lags were measured.
    """
    segments: Sequence[Segment] | None = ()
    if any(lag.records for lag in lags):
        try:
            segments = (await namespace.describe(stream)).segments
        except RhumblineError:
            segments = None
    total = None if count is None else count.records
    return [bytes_of(lag, total, segments) for lag in lags]


def bytes_of(lag: Lag, total: int | None, segments: Sequence[Segment] | None) -> int | None:
    """Return how many bytes the records of a lag have, of a stream with ``total`` records.

    None if that is not known.
    """
    if lag.records == 0:
        return 0
    if lag.records is None or total is None or segments is None:
        return None
    return bytes_between(segments, total - lag.records, total)


def bytes_between(segments: Sequence[Segment], first: int, end: int) -> int | None:
    """Return the bytes of the records with the sequence ids ``first`` to ``end`` - 1.

    The bytes of a completed segment are exact if all of its records count, and otherwise in
    proportion to them. Records of segments in progress have the mean size of the completed ones.
    None if there are such records and no segment with records is completed.
    """
    completed = [segment for segment in segments if segment.is_completed and segment.record_count]
    size, left = 0, end - first
    for segment in completed:
        segment_end = segment.start_sequence_id + segment.record_count
        records = min(end, segment_end) - max(first, segment.start_sequence_id)
        if records > 0:
            size += segment.length_bytes * records // segment.record_count
            left -= records
    if left > 0:
        known = sum(segment.record_count for segment in completed)
        if not known:
            return None
        size += left * sum(segment.length_bytes for segment in completed) // known
    return size
