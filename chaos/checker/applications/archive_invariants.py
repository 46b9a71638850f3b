"""The invariant of archived segments."""

from collections.abc import Iterator

from ..run_record import RunRecord, invariant


@invariant("G55")
def archived_segments_are_in_the_archive(record: RunRecord) -> Iterator[str]:
    """From the moment at which the metadata calls a segment archived, its manifest is published and
    all its parts exist. They hold exactly the records of the segment."""
    use = record.archives
    if use is None:
        return
    for lssn, at_ms in sorted(use.recorded.items()):
        periods = use.complete.get(lssn, [])
        if not any(begin <= at_ms and end == float("inf") for begin, end in periods):
            yield (
                f"segment {lssn} was called archived at {at_ms:.1f} ms; "
                f"its manifest and all parts existed in {periods or 'no period'}"
            )
    yield from use.differences
