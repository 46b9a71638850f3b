"""The world of tests of the index."""

import pytest

from rhumbline.tests.unit.coldstore.index.index_world import IndexWorld


@pytest.fixture
def index_world() -> IndexWorld:
    """Return a world with an empty archive."""
    return IndexWorld()
