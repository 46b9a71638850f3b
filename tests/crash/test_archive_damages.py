"""No damage to an archive is missed by verify, or gives a reader a wrong or short result."""

import pytest

from rhumbline.tests.crash.archive_damages import DamagedArchive


def test_damage_is_found_and_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short form of ``make archive-damages``."""
    outcome = DamagedArchive.create(monkeypatch).run(100, seed=7)
    assert outcome.missed == []
    assert outcome.wrong == []
    assert len(outcome.damages) > 12
