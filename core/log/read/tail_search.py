"""The search for the last record that completed segments hold (rule STR-41)."""

from ...protocol.dlsn import FIRST_DLSN, Dlsn
from ...protocol.errors import NoSuchLedgerError, UnavailableError
from ...protocol.record_set import RecordSet
from ...protocol.segments import FIRST_LSSN, Segment
from ..decoded_entry import record_sets_of
from ..ledger_interface import ReadableLedger
from ..metadata.stream_reads import StreamReads
from .segment_opener import SegmentOpener


async def find_tail(
    streams: StreamReads, opener: SegmentOpener, stream: str, newest: Segment | None
) -> Dlsn:
    """Return the position after the last record of the completed segments up to ``newest``.

    If that record was purged, return the first position behind what was purged. Raises the errors
    of the metadata store, of ledgers and of archives.
    """
    segment = newest
    while segment is not None and segment.record_count == 0:
        if segment.lssn == FIRST_LSSN:
            return FIRST_DLSN
        stored = await streams.segment(stream, segment.lssn - 1, segment.stream_id)
        if stored is None:
            return Dlsn(segment.lssn, 0, 0)
        segment = stored.segment
    if segment is None:
        return FIRST_DLSN
    try:
        ledger = await opener.open(stream, segment)
        try:
            entry_id, last = await _last_data_set(ledger, segment)
        finally:
            await ledger.aclose()
    except NoSuchLedgerError as error:
        raise UnavailableError(
            f"stream {stream}: segment {segment.lssn} was truncated or archived meanwhile"
        ) from error
    return Dlsn(segment.lssn, entry_id, last.slot + last.count)


async def _last_data_set(ledger: ReadableLedger, segment: Segment) -> tuple[int, RecordSet]:
    """Return the entry and the record set with the last record of a segment that has records."""
    low, high = 0, segment.last_entry_id
    middle = high  # mostly the last entry has the last record, and one read is enough
    while True:
        entry = (await ledger.read(middle, middle))[0]
        *_, last = record_sets_of(entry)
        end = last.position + last.positions
        if end < segment.record_count:
            low = middle + 1
        elif last.positions:
            return middle, last
        else:
            high = middle
        middle = (low + high) // 2
