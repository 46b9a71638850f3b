"""Fixtures of contract tests."""

import pytest

from rhumbline.tests.support.fakes.log_world import LogWorld


@pytest.fixture
def world() -> LogWorld:
    """Return streams over stores in memory; the test runs in its virtual time."""
    return LogWorld.create()
