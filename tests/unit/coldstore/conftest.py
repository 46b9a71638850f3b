"""A fixture that applies to all tests of archives."""

import pytest

from rhumbline.coldstore.archive import part_file


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode a few rows at a time, so that most record sets span several chunks of a table."""
    monkeypatch.setattr(part_file, "_BATCH_BYTES", 200)
