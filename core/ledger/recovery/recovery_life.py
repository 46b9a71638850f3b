"""The states of a recovery: its steps, in their order.

A recovery that gives up has no state of its own: its caller gets the error, and the ledger stays in
recovery.
"""

from enum import Enum, unique

from ...runtime.state_machine import TransitionTable


@unique
class RecoveryLife(Enum):
    """The states of a recovery."""

    READING = "Reads the ledger's metadata, and records that it is in recovery."
    FENCING = "Fences the last fragment, and learns up to which entry all are confirmed."
    COPYING = "Reads the entries above it and writes them again, until one does not exist."
    ENDING = "The last entry is known. Its length is read, and P must hold for every copy."
    CONFIRMING = "An operator decides on an end that cannot be proven."
    CLOSING = "The compare-and-set that closes the ledger is under way."
    CLOSED = "The end of the ledger is recorded."


@unique
class RecoveryEvent(Enum):
    """The events in a recovery."""

    BEGIN = "the metadata says that the ledger is in recovery"
    FIND_CLOSED = "the metadata says that the ledger is closed"
    FENCE = "no writer can be acknowledged any more"
    FENCE_PARTLY = "too few bookies responded, and an operator may decide"
    END = "the next entry was not acknowledged and never can be"
    DOUBT = "the next entry may exist, and an operator may decide"
    ASK = "the end is not proven"
    CLOSE = "the end is proven, or an operator confirmed it"
    RECORD = "the metadata store holds the end"
    ADOPT = "another recovery, or the writer, closed the ledger first"
    RETRY = "bookies or the metadata store did not respond, or the metadata changed"


LEDGER_RECOVERY: TransitionTable[RecoveryLife, RecoveryEvent] = TransitionTable(
    "ledger recovery",
    "A recovery of one ledger, with all its attempts.",
    RecoveryLife.READING,
    {
        (RecoveryLife.READING, RecoveryEvent.FIND_CLOSED): RecoveryLife.CLOSED,
        (RecoveryLife.READING, RecoveryEvent.BEGIN): RecoveryLife.FENCING,
        (RecoveryLife.FENCING, RecoveryEvent.FENCE): RecoveryLife.COPYING,
        (RecoveryLife.FENCING, RecoveryEvent.FENCE_PARTLY): RecoveryLife.COPYING,
        (RecoveryLife.COPYING, RecoveryEvent.END): RecoveryLife.ENDING,
        (RecoveryLife.COPYING, RecoveryEvent.DOUBT): RecoveryLife.ENDING,
        (RecoveryLife.ENDING, RecoveryEvent.ASK): RecoveryLife.CONFIRMING,
        (RecoveryLife.ENDING, RecoveryEvent.CLOSE): RecoveryLife.CLOSING,
        (RecoveryLife.CONFIRMING, RecoveryEvent.CLOSE): RecoveryLife.CLOSING,
        (RecoveryLife.CLOSING, RecoveryEvent.RECORD): RecoveryLife.CLOSED,
        (RecoveryLife.CLOSING, RecoveryEvent.ADOPT): RecoveryLife.CLOSED,
        **{
            (state, RecoveryEvent.RETRY): RecoveryLife.READING
            for state in RecoveryLife
            if state is not RecoveryLife.CLOSED
        },
    },
)
