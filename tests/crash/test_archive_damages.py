"""No damage to an archive is missed by verify, or gives a reader a wrong or short result."""

import pytest

from rhumbline.tests.crash.archive_damages import DamagedArchive, Outcome


def test_damage_is_found_and_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short form of ``make archive-damages``, without a Spark session."""
    outcome = Outcome()
    DamagedArchive(monkeypatch).run(range(10_000, 10_040), outcome)
    assert outcome.missed == []
    assert outcome.wrong == []
    assert {one.partition(" ")[0] for one in outcome.damages} > {"part", "relocation", "pack"}
