"""A bug that breaks an invariant of a state machine ends a simulated run with the last transitions.

Each bug is planted in this process only. The run is the one that a reader would replay by its seed.
"""

import pytest

from rhumbline.chaos.simulation.plans.races import changes
from rhumbline.chaos.simulation.plans.streams import streams
from rhumbline.chaos.simulation.seed_run import RunPlan, run_plan
from rhumbline.core.ledger.write.writer_state import WriterState
from rhumbline.core.log.write.pipeline import Pipeline


def failure_of(plan: RunPlan) -> str:
    result = run_plan(plan)
    assert [violation.id for violation in result.violations] == ["CRASH"]
    text = str(result.violations[0])
    print(text)  # for the reader of the test's output
    return text


def test_writer_that_confirms_during_a_change_prints_its_story(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(WriterState, "freeze", lambda _: None)
    text = failure_of(changes(1))
    assert "ledger writer" in text
    assert "INSTALL is impossible in state CHOOSING" in text
    assert "OPEN -> CHOOSING by CHANGE (failed: " in text


def test_pipeline_that_switches_while_entries_are_sent_prints_its_story(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Pipeline, "hold", lambda _: None)
    text = failure_of(streams(1))
    assert "segment pipeline stream: SWITCH is impossible in state SENDING" in text
