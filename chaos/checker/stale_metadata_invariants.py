"""The invariant of readers that use old metadata (rules STR-28 and STR-30)."""

from collections.abc import Iterator
from itertools import pairwise

from .history import ReportedEnd
from .run_record import RunRecord, StreamVersions, invariant


@invariant("G20")
def old_metadata_shows_less_and_nothing_wrong(record: RunRecord) -> Iterator[str]:
    """Check that a reader never goes back, and that it reports an end only if there was one.

    A reader that begins behind an end reports that end only if a stream of the name was ended at
    some moment between its call and its report. What is missing in between, and other reports that
    are not true, are violations of G12.
    """
    for read in record.history.reads:
        for before, after in pairwise(read.records):
            if after.dlsn <= before.dlsn:
                yield f"{read.reader} got {after.dlsn} after {before.dlsn}"
    for end in record.history.reported_ends:
        candidates = [
            versions
            for name, versions in record.streams.items()
            if name.rpartition(" ")[0] == end.stream
        ]
        if not any(_was_ended(versions, end) for versions in candidates):
            yield (
                f"{end.reader} reported the end of {end.stream} at {end.told_ms:.1f} ms, but no "
                f"stream of the name was ended after {end.called_ms:.1f} ms"
            )


def _was_ended(versions: StreamVersions, end: ReportedEnd) -> bool:
    removed_ms = float("inf") if versions.removed_ms is None else versions.removed_ms
    if removed_ms < end.called_ms:
        return False
    return any(
        version.segment is not None and version.segment.ends_stream and version.at_ms <= end.told_ms
        for segment in versions.segments.values()
        for version in segment
    )
