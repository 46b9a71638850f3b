"""A bug that breaks an invariant of a state machine ends a simulated run with the last transitions.

Each bug is planted in this process only. The run is the one that a reader would replay by its seed.
"""

import pytest

from rhumbline.chaos.simulation.plans.races import changes
from rhumbline.chaos.simulation.seed_run import run_plan
from rhumbline.core.ledger.write.writer_state import WriterState


def failure_of(seed: int) -> str:
    result = run_plan(changes(seed))
    assert [violation.id for violation in result.violations] == ["CRASH"]
    text = str(result.violations[0])
    print(text)  # for the reader of the test's output
    return text


def test_writer_that_confirms_during_a_change_prints_its_story(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(WriterState, "freeze", lambda _: None)
    text = failure_of(1)
    assert "ledger writer" in text
    assert "INSTALL is impossible in state CHOOSING" in text
    assert "OPEN -> CHOOSING by CHANGE (failed: " in text
