"""The states of a ledger writer: when it confirms entries, and how it ends.

A failed bookie is not a state of the writer: its entries are confirmed as long as the others
satisfy P (replica_health.py).
"""

from enum import Enum, unique

from ...runtime.state_machine import TransitionTable


@unique
class WriterLife(Enum):
    """The states of a ledger writer."""

    OPEN = "Accepts entries, and confirms them in order when P holds."
    CHOOSING = "Chooses another ensemble, or another R. Entries are confirmed as before."
    COMMITTING = "Waits until the metadata store has decided on the change. Confirms nothing."
    FAILED_CHANGING = "Has failed during a change, whose outcome may be unknown. Takes no entries."
    FAILED = "Takes no entries, and all have been called back: it failed or is to be closed."
    CLOSING = "The end of the ledger is being recorded."
    CLOSED = "The end of the ledger is recorded."


@unique
class WriterEvent(Enum):
    """The events in the life of a ledger writer."""

    CHANGE = "bookies should be replaced, or another R was requested"
    FREEZE = "the change begins after the LAC, which must not move until it is decided"
    INSTALL = "the stored metadata was adopted: this change, or one made by another process"
    THAW = "the compare-and-set is decided"
    SETTLE = "no change is wanted any more"
    FAIL = "the ledger was fenced, bookies are missing, or the owner closes the writer"
    CLOSE = "the owner closes the ledger, and no change is under way"
    RECORD = "the metadata store holds the end of the ledger"
    INTERRUPT = "the end could not be recorded; the owner may try again"


FAILED = (
    WriterLife.FAILED_CHANGING,
    WriterLife.FAILED,
    WriterLife.CLOSING,
    WriterLife.CLOSED,
)
"""The states in which the writer takes no entries."""

LEDGER_WRITER = TransitionTable(
    "ledger writer",
    "The writer of one ledger, from its creation until its end is recorded.",
    WriterLife.OPEN,
    {
        (WriterLife.OPEN, WriterEvent.CHANGE): WriterLife.CHOOSING,
        (WriterLife.CHOOSING, WriterEvent.FREEZE): WriterLife.COMMITTING,
        (WriterLife.COMMITTING, WriterEvent.INSTALL): WriterLife.COMMITTING,
        (WriterLife.COMMITTING, WriterEvent.THAW): WriterLife.CHOOSING,
        (WriterLife.CHOOSING, WriterEvent.SETTLE): WriterLife.OPEN,
        (WriterLife.OPEN, WriterEvent.FAIL): WriterLife.FAILED,
        (WriterLife.CHOOSING, WriterEvent.FAIL): WriterLife.FAILED_CHANGING,
        (WriterLife.COMMITTING, WriterEvent.FAIL): WriterLife.FAILED_CHANGING,
        (WriterLife.FAILED_CHANGING, WriterEvent.INSTALL): WriterLife.FAILED_CHANGING,
        (WriterLife.FAILED_CHANGING, WriterEvent.SETTLE): WriterLife.FAILED,
        (WriterLife.FAILED, WriterEvent.CLOSE): WriterLife.CLOSING,
        (WriterLife.CLOSING, WriterEvent.RECORD): WriterLife.CLOSED,
        (WriterLife.CLOSING, WriterEvent.INTERRUPT): WriterLife.FAILED,
    },
)
