"""Each ledger of a drain says what it waits for."""

import pytest

from rhumbline.regions.repair.progress import (
    NO_REPAIR,
    NOT_AUDITED,
    QUEUED,
    BlockedLedger,
    explained,
)
from rhumbline.regions.repair.task_store import RepairTask

LEDGER = BlockedLedger(7, "default/s", True)
TASK = RepairTask(7, "b is leaving", 5)
STUCK = RepairTask(7, "b is leaving", 5, "no legal place", is_hopeless=True)


@pytest.mark.parametrize(
    ("task", "has_auditor", "reason"),
    [
        (None, False, NO_REPAIR),
        (None, True, NOT_AUDITED),
        (TASK, True, QUEUED),
        (TASK, False, NO_REPAIR),
        (STUCK, True, "no legal place"),
        (STUCK, False, "no legal place"),
    ],
)
def test_the_reason_follows_from_the_task_and_the_auditor(
    task: RepairTask | None, has_auditor: bool, reason: str
) -> None:
    found = explained(LEDGER, task, has_auditor)
    assert found.reason == reason
    assert found.is_hopeless == (task is STUCK)
    assert (found.ledger_id, found.stream, found.is_open) == (7, "default/s", True)
