"""Isolates tests of the command from each other."""

from collections.abc import Iterator

import pytest

from rhumbline.cli.output_form import TABLE, select_form


@pytest.fixture(autouse=True)
def table_form() -> Iterator[None]:
    """Begin and end each test with the output format of people, which is that of the process."""
    select_form(TABLE)
    yield
    select_form(TABLE)
