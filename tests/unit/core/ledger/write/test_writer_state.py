"""The state of a ledger writer decides without bookies, and a broken invariant tells its story."""

from typing import Any

import pytest

from rhumbline.core.ledger.add_op import AddOp
from rhumbline.core.ledger.write.writer_life import (
    FAILED,
    LEDGER_WRITER,
    WriterLife,
)
from rhumbline.core.ledger.write.writer_state import WriterState
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import InvariantBrokenError, LedgerFencedError
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.runtime.metadata_store import Version

BOOKIE_0, BOOKIE_1, BOOKIE_2, BOOKIE_3 = (BookieId(f"b{i}:1") for i in range(4))
REGIONS = tuple(map(Region, "abc"))


def writer() -> WriterState:
    metadata = LedgerMetadata(7, 3, 3, 2, (Fragment(0, (BOOKIE_0, BOOKIE_1, BOOKIE_2)),)).with_r(
        0, 2
    )
    nothing: Any = None  # a decision needs no stores, bookies or settings
    times = iter(range(1000))
    return WriterState(nothing, metadata, Version("0"), REGIONS, lambda: float(next(times)))


def push(state: WriterState, acks: int = 0, outstanding: int = 0b111) -> AddOp:
    op = AddOp(
        lambda *_: None,
        state.last_add_confirmed + len(state.queue) + 1,
        bytes(60),
        10,
        lambda *_: None,
    )
    op.write_mask = 0b111
    op.acks, op.outstanding = acks, outstanding & ~acks
    op.is_complete = state.view.is_acked(acks)
    state.queue.append(op)
    return op


def other_ensemble(state: WriterState) -> LedgerMetadata:
    return state.metadata.with_fragment(
        state.last_add_confirmed + 1, (BOOKIE_0, BOOKIE_1, BOOKIE_3)
    )


def committing(state: WriterState) -> None:
    assert state.begin_change()
    state.freeze()


def test_nothing_follows_when_the_end_is_recorded() -> None:
    assert not any(state is WriterLife.CLOSED for state, _ in LEDGER_WRITER.transitions)


def test_no_state_takes_entries_again_after_a_failure() -> None:
    for (old, _), new in LEDGER_WRITER.transitions.items():
        assert old not in FAILED or new in FAILED


def test_changes_do_not_overlap() -> None:
    state = writer()
    assert state.begin_change()
    assert not state.begin_change()
    state.freeze()
    assert state.is_frozen
    with pytest.raises(InvariantBrokenError, match="FREEZE is impossible in state COMMITTING"):
        state.freeze()


def test_change_drops_the_acks_of_replaced_bookies_and_keeps_the_other_replicas() -> None:
    state = writer()
    complete, other = push(state, acks=0b101), push(state, acks=0b011)
    kept, replaced = state.replicas[0], state.replicas[2]
    state.mark_failed(replaced, now=1.0)
    committing(state)
    assert state.install(other_ensemble(state), Version("1"), REGIONS) == 0b100
    assert (complete.acks, complete.is_complete) == (0b001, False)
    assert (other.acks, other.is_complete) == (0b011, True)
    assert state.failed_mask == 0
    assert state.replicas[0] is kept
    assert state.replicas[2].bookie == BOOKIE_3
    assert replaced.last_entry_id == -1
    assert state.is_frozen, "nothing is called back before thaw"
    state.thaw()
    state.end_change()
    assert state.machine.state is WriterLife.OPEN
    assert repr(state.machine) == "<ledger writer 7: OPEN>"


def test_bookies_with_old_copies_of_the_metadata_count_as_failed_and_lose_their_acks() -> None:
    state = writer()
    entry = push(state, acks=0b101)
    kept, old, failed = state.replicas
    state.mark_failed(failed, now=1.0)
    committing(state)
    assert state.install(state.metadata, Version("1"), REGIONS, old_copies=0b110) == 0b110
    assert (entry.acks, state.failed_mask) == (0b001, 0b110)
    assert state.replicas[0] is kept
    for before, after in zip((old, failed), state.replicas[1:], strict=True):
        assert after is not before, "late responses to it are ignored"
        assert after.bookie == before.bookie
        assert (before.last_entry_id, after.has_old_copy) == (-1, True)
    assert state.replicas[2].failed_since == 1.0


def test_ensemble_is_installed_only_while_nothing_is_confirmed() -> None:
    state = writer()
    assert state.begin_change()
    with pytest.raises(InvariantBrokenError, match="INSTALL is impossible in state CHOOSING") as e:
        state.install(other_ensemble(state), Version("1"), REGIONS)
    assert "0.000 s: OPEN -> CHOOSING by CHANGE (failed: none)" in e.value.story


def test_failure_returns_every_entry_and_waits_for_a_change_before_the_end_is_recorded() -> None:
    state = writer()
    pending = [push(state), push(state)]
    committing(state)
    assert state.fail(LedgerFencedError("fenced"), confirmed_length=0) == pending
    assert not state.queue
    assert not state.is_frozen
    with pytest.raises(InvariantBrokenError, match="CLOSE is impossible in state FAILED_CHANGING"):
        state.begin_close()
    state.install(other_ensemble(state), Version("1"), REGIONS)  # it was written all the same
    state.thaw()
    state.end_change()
    state.begin_close()
    state.interrupt_close()
    state.begin_close()
    state.end_close(state.metadata.closed(-1, 0), Version("2"))
    assert state.machine.state is WriterLife.CLOSED
    assert not state.begin_change()


def test_entry_that_is_complete_without_p_breaks_an_invariant() -> None:
    state = writer()
    push(state).is_complete = True
    with pytest.raises(InvariantBrokenError, match=r"complete without P \(LED-15\)") as e:
        state.begin_change()
    assert e.value.story.endswith("OPEN -> CHOOSING by CHANGE (failed: none)")


def test_gap_in_the_queue_breaks_an_invariant() -> None:
    state = writer()
    push(state).entry_id = 5
    with pytest.raises(InvariantBrokenError, match=r"entry 5, not 0, is next \(LED-5\)"):
        state.begin_change()


def test_replica_that_the_metadata_does_not_name_breaks_an_invariant() -> None:
    state = writer()
    state.metadata = state.metadata.with_fragment(0, (BOOKIE_0, BOOKIE_1, BOOKIE_3))
    with pytest.raises(InvariantBrokenError, match="LED-6"):
        state.begin_change()


def test_fragment_of_the_metadata_is_the_ensemble() -> None:
    state = writer()
    committing(state)
    state.install(other_ensemble(state), Version("1"), REGIONS)
    assert state.metadata.fragments == (Fragment(0, (BOOKIE_0, BOOKIE_1, BOOKIE_3)),)
