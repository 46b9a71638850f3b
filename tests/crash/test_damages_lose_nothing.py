"""A thousand random damages to every kind of file; ``make damages`` runs many more."""

import pytest

from rhumbline.core.bookie.index.index_blocks import IndexBlock
from rhumbline.core.bookie.index.index_file import IndexFile
from rhumbline.tests.crash.damages import DAMAGES, FILE_KINDS, run_damages


def test_no_damage_denies_falsifies_or_loses_an_entry() -> None:
    """Damage to the index or to the newest log used to deny entries, or lose them later."""
    tally = run_damages(1_000)
    assert tally.faults == {}
    assert {key[0] for key in tally.trials} == set(FILE_KINDS)
    assert {key[1] for key in tally.trials} == set(DAMAGES)
    refused = [kind for kind, _, _ in tally.refused]
    assert set(refused) <= {"sealed log", "newest log", "sorted"}, "index files are built again"


def test_index_that_is_believed_without_checksums_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planted fault is that of the index before: its blocks were read unchecked."""

    async def load(self: IndexFile, at: int) -> IndexBlock:
        following = at + 1
        is_last = following == len(self._offsets)
        end = self._directory_offset if is_last else self._offsets[following]
        start = self._offsets[at]
        return IndexBlock(await self.file.read(start, end - start))

    monkeypatch.setattr(IndexFile, "load", load)
    assert run_damages(300).faults
