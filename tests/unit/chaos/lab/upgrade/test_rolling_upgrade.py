"""An early raise of the feature level is a fault only if the old version lacks the level."""

import pytest

from rhumbline.chaos.lab.upgrade.load import AppendGap
from rhumbline.chaos.lab.upgrade.rolling_upgrade import StreamAudit, UpgradeResult

GAP = AppendGap(1.0, "none")


def result(*codes: int, has_new_level: bool, lost: int = 0) -> UpgradeResult:
    commands = [(f"attempt {number}", code, "") for number, code in enumerate(codes, 1)]
    audit = StreamAudit(5, lost, 0, True, GAP, GAP)
    return UpgradeResult({"s": audit}, has_new_level=has_new_level, level_commands=commands)


@pytest.mark.parametrize(
    ("found", "faults"),
    [
        (result(3, 3, 0, has_new_level=True), []),
        (result(3, 0, 0, has_new_level=True), ["the level was raised attempt 2"]),
        (result(0, 0, 0, has_new_level=False), []),
        (result(3, 3, has_new_level=True), ["the level was not raised in the end"]),
        (result(0, has_new_level=True, lost=1), ["s: 1 lost, 0 doubled"]),
    ],
)
def test_faults_are_named(found: UpgradeResult, faults: list[str]) -> None:
    """Versions with the same levels failed, since nothing was there to refuse."""
    assert found.faults == faults
