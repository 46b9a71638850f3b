"""A table reaches its archive step by step, whatever was registered or deleted before."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.coldstore.iceberg.registration import (
    Register,
    Remove,
    Replace,
    Step,
    TableState,
    next_step,
    waiting_segments,
)
from rhumbline.core.protocol.errors import CorruptionError


def after(state: TableState | None, step: Step) -> TableState:
    """Return the state of a table after a step, as the tables themselves compute it."""
    if isinstance(step, Remove):
        assert state is not None
        return TableState(step.below, state.last_lssn, state.last_link)
    if isinstance(step, Replace):
        assert state is not None
        return replace(state, relocation=step.relocation)
    if state is None or state.first_lssn > state.last_lssn:
        return TableState(step.lssn, step.lssn, "d")
    return TableState(state.first_lssn, step.lssn, "d")


states = st.none() | st.builds(
    lambda first, count: TableState(first, first + count - 1, "d" if count else ""),
    st.integers(1, 9),
    st.integers(0, 9),
)


@given(states, st.integers(1, 20), st.integers(0, 9))
def test_a_table_reaches_its_archive(state: TableState | None, first: int, count: int) -> None:
    if state is not None:  # only the oldest archives are ever deleted
        first = max(first, state.first_lssn)
        count = max(count, state.next_lssn - first) if count else 0
    archived = range(first, first + count)
    for _ in range(len(archived) + 3):
        step = next_step(state, archived)
        if step is None:
            break
        state = after(state, step)
    assert next_step(state, archived) is None
    assert waiting_segments(state, archived) == 0
    if archived:
        assert state is not None
        assert (state.first_lssn, state.last_lssn) == (archived[0], archived[-1])
    elif state is not None:
        assert state.first_lssn == state.next_lssn, "nothing is left"


def test_a_missing_segment_is_never_skipped() -> None:
    with pytest.raises(CorruptionError, match="segment 3 is missing"):
        next_step(TableState(1, 2, "d"), [1, 2, 4])
    assert waiting_segments(TableState(1, 2, "d"), [1, 2, 4]) == 1


def test_what_was_deleted_before_it_was_registered_is_passed_over() -> None:
    state = TableState(1, 2, "d")
    assert next_step(state, [5, 6]) == Remove(3)
    assert next_step(TableState(3, 2, "d"), [5, 6]) == Register(5)


def test_files_are_replaced_when_all_segments_are_registered() -> None:
    state = TableState(1, 2, "d", relocation=1)
    assert next_step(state, [1, 2, 3], 2) == Register(3)
    assert next_step(state, [1, 2], 2) == Replace(2)
    assert next_step(state, [1, 2], 1) is None
