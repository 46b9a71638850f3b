"""The table of the pipeline, the transitions of real rolls, and the invariants behind them."""

import asyncio

import pytest

from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.write.pipeline import Pipeline
from rhumbline.core.log.write.pipeline_state import PIPELINE, PipelineEvent, PipelineState
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.errors import ClosedError, InvariantBrokenError
from rhumbline.tests.support.fakes.log_world import LogWorld


def pipeline_of(writer: StreamWriter) -> Pipeline:
    return writer._pipeline


def events_of(pipeline: Pipeline) -> list[str]:
    return [line.split(" by ")[1].split()[0] for line in pipeline.machine.story().splitlines()]


def test_nothing_is_sent_again_after_the_end() -> None:
    ended = (PipelineState.FAILED, PipelineState.ABANDONED)
    for (old, _), new in PIPELINE.transitions.items():
        assert old not in ended or new in ended


def test_entries_go_to_another_segment_only_after_a_hold_or_a_failure() -> None:
    switching = [state for state, event in PIPELINE.transitions if event is PipelineEvent.SWITCH]
    assert switching == [PipelineState.HELD, PipelineState.BROKEN]


async def test_planned_roll_holds_and_switches(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=1))
    await writer.append(b"a")
    await asyncio.sleep(1)
    pipeline = pipeline_of(writer)
    assert events_of(pipeline) == ["HOLD", "SWITCH"]
    assert "SENDING by SWITCH (to segment 2)" in pipeline.machine.story()
    assert repr(pipeline) == "<segment pipeline s: SENDING>"
    await writer.close()
    assert events_of(pipeline)[-2:] == ["FAIL", "ABANDON"]


async def test_abort_ends_the_pipeline_once(world: LogWorld) -> None:
    writer = await world.writer("s")
    await writer.abort()
    await writer.abort()
    pipeline = pipeline_of(writer)
    assert events_of(pipeline) == ["FAIL", "ABANDON"]
    assert pipeline.machine.state is PipelineState.ABANDONED
    with pytest.raises(ClosedError):
        writer.append(b"a")


async def test_entry_in_flight_to_another_segment_breaks_an_invariant(world: LogWorld) -> None:
    writer = await world.writer("s")
    world.ledgers.are_acks_held = True
    writer.append(b"a")
    await asyncio.sleep(1)
    pipeline = pipeline_of(writer)
    pipeline.in_flight[0].lssn += 1
    with pytest.raises(InvariantBrokenError, match="STR-8") as e:
        pipeline.hold()
    assert e.value.story.endswith("SENDING -> HELD by HOLD (1 entries in flight)")
    pipeline.in_flight[0].lssn -= 1
    world.ledgers.release_acks()
    await writer.abort()


async def test_unresolved_entries_behind_a_working_ledger_break_an_invariant(
    world: LogWorld,
) -> None:
    writer = await world.writer("s")
    world.ledgers.are_acks_held = True
    writer.append(b"a")
    await asyncio.sleep(1)
    pipeline = pipeline_of(writer)
    pipeline.unresolved.append(pipeline.in_flight[0])
    with pytest.raises(InvariantBrokenError, match="STR-9"):
        pipeline.hold()
    pipeline.unresolved.clear()
    world.ledgers.release_acks()
    await writer.abort()
