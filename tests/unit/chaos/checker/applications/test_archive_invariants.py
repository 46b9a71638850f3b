"""The invariant of archived segments, on runs that are written down by hand."""

from rhumbline.chaos.checker.applications.archive_invariants import (
    archived_segments_are_in_the_archive,
)
from rhumbline.chaos.checker.applications.archive_use import ArchiveUse
from rhumbline.chaos.checker.history import History
from rhumbline.chaos.checker.run_record import RunRecord

FOREVER = float("inf")


def texts_for(use: ArchiveUse | None) -> list[str]:
    record = RunRecord(history=History(lambda: 0.0), ledgers={}, segments={}, regions={})
    record.archives = use
    return list(archived_segments_are_in_the_archive(record))


def test_complete_archives_violate_nothing() -> None:
    assert texts_for(None) == []
    use = ArchiveUse(complete={1: [(5.0, FOREVER)], 2: [(7.0, FOREVER)]}, recorded={1: 5.0})
    assert texts_for(use) == []


def test_a_segment_that_was_called_archived_too_early_is_found() -> None:
    [text] = texts_for(ArchiveUse(complete={1: [(5.0, FOREVER)]}, recorded={1: 4.9}))
    assert text.startswith("segment 1 was called archived at 4.9 ms")
    [text] = texts_for(ArchiveUse(recorded={3: 1.0}))
    assert "no period" in text


def test_a_part_that_was_deleted_is_found() -> None:
    use = ArchiveUse(complete={1: [(2.0, 9.0)]}, recorded={1: 5.0})
    assert len(texts_for(use)) == 1


def test_differences_to_the_stream_are_violations() -> None:
    assert texts_for(ArchiveUse(differences=["segment 1: missing"])) == ["segment 1: missing"]
