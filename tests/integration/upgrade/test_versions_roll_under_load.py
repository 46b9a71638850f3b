"""Two versions in one cluster: a rolling upgrade and a downgrade under load."""

from pathlib import Path

import pytest

from rhumbline.chaos.lab.upgrade.program_version import WORK_TREE
from rhumbline.chaos.lab.upgrade.rolling_upgrade import roll
from rhumbline.core.metadata.feature_levels import LEVELS

BEFORE_LEVELS = "951dc290"
"""The last commit whose program knows no feature levels."""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_record_is_lost_while_versions_change(tmp_path: Path) -> None:
    result = roll(tmp_path, BEFORE_LEVELS, WORK_TREE, 1.0)
    print("\n".join(result.lines()))
    assert result.faults == []
    when, code, text = result.level_commands[0]
    assert (when, code) == ("with 4 of 9 servers upgraded", 3)
    assert f"processes are not known to know feature level {max(LEVELS)}" in text
