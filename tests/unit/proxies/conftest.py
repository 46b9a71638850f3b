"""Fixtures of the tests of proxies."""

import pytest

from rhumbline.tests.support.fakes.log_world import LogWorld


@pytest.fixture
def log(world: LogWorld) -> LogWorld:
    """Return the streams below the proxies of a test."""
    return world
