"""A step waits for copies to move only where there are copies."""

import pytest

from rhumbline.chaos.lab.game_day.steps import holds_data


@pytest.mark.parametrize(("records", "expected"), [(0, False), (5, True), (None, True)])
def test_an_empty_segment_names_bookies_and_has_no_copies(
    records: int | None, expected: bool
) -> None:
    assert holds_data({"records": records, "bookies": ["b1"]}) is expected
