"""The life cycle of a bookie: which adds it accepts, from its start to its end.

The state follows from the disk, the operator's command and the log (rule BKE-20). Limbo is not a
state of the bookie but of single ledgers (limbo.py).
"""

from enum import Enum, unique

from ..runtime.state_machine import TransitionTable


@unique
class BookieState(Enum):
    """The states of a bookie."""

    STARTING = "Opens its storage, registers and claims it. Connections are closed at once."
    WRITABLE = "Accepts all adds."
    READ_ONLY = "Refuses plain adds: little disk space is free, or an operator ordered it."
    FULL = "Refuses recovery adds too: the disk space that is reserved for them is used up."
    FAILED = "Only serves reads until it is started again."
    CLOSING = "Accepts no adds; adds that it accepted before are written and acknowledged."
    CLOSED = "Has closed its connections and its storage."


@unique
class BookieEvent(Enum):
    """The events in the life of a bookie."""

    ADMIT_ALL = "there is space, and no command forbids plain adds"
    ADMIT_RECOVERY = "there is only the reserve, or a command forbids plain adds"
    ADMIT_NONE = "there is no space"
    FAIL = "the write log failed, or another process claimed the storage"
    CLOSE = "the bookie is shut down"
    END = "everything is closed"


ADMISSIONS = {
    BookieEvent.ADMIT_ALL: BookieState.WRITABLE,
    BookieEvent.ADMIT_RECOVERY: BookieState.READ_ONLY,
    BookieEvent.ADMIT_NONE: BookieState.FULL,
    BookieEvent.FAIL: BookieState.FAILED,
}
"""The state to which each event of ``admission`` leads."""

SERVING = (
    BookieState.WRITABLE,
    BookieState.READ_ONLY,
    BookieState.FULL,
    BookieState.FAILED,
)
"""The states in which the bookie serves connections."""

BOOKIE_LIFE = TransitionTable(
    "bookie",
    "The life cycle of a bookie. Its registration says whether it is writable.",
    BookieState.STARTING,
    {
        **{
            (state, event): reached
            for state in (BookieState.STARTING, *SERVING[:-1])
            for event, reached in ADMISSIONS.items()
            if state is not reached
        },
        **{
            (state, BookieEvent.CLOSE): BookieState.CLOSING
            for state in (BookieState.STARTING, *SERVING)
        },
        (BookieState.CLOSING, BookieEvent.END): BookieState.CLOSED,
    },
)


def admission(
    *, is_failed: bool, has_reserve: bool, has_room: bool, is_read_only_by_command: bool
) -> BookieEvent:
    """Return the event that describes which adds the bookie can accept now."""
    if is_failed:
        return BookieEvent.FAIL
    if not has_reserve:
        return BookieEvent.ADMIT_NONE
    if not has_room or is_read_only_by_command:
        return BookieEvent.ADMIT_RECOVERY
    return BookieEvent.ADMIT_ALL
