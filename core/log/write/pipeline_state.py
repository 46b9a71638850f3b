"""The states of a pipeline: when the entries of a writer session may be sent.

Whether an entry is sent depends on the state and on the number of entries in flight.
"""

from enum import Enum, unique

from ...runtime.state_machine import TransitionTable


@unique
class PipelineState(Enum):
    """The states of a pipeline."""

    SENDING = "Entries go to the ledger of the segment."
    FULL = "The ledger has no room. Entries wait."
    HELD = "A segment roll waits until nothing is in flight. Entries wait for the next segment."
    BROKEN = "The ledger failed. Entries wait until a roll has settled those in flight."
    FAILED = "Nothing is sent any more. A roll or the ledger still settles what is in flight."
    ABANDONED = "Nothing is sent any more, and the outcome of what was in flight stays unknown."


@unique
class PipelineEvent(Enum):
    """The events in the life of a pipeline."""

    FILL = "the ledger refused an entry because too many are pending"
    DRAIN = "the ledger has room again"
    HOLD = "the next segment is published"
    BREAK = "the ledger failed, and the stream was not lost"
    SWITCH = "every entry of the old segment is settled"
    FAIL = "the stream or a permission was lost, a roll failed for good, or the writer stops"
    ABANDON = "the writer stops and waits for nothing"


_HEALTHY = (PipelineState.SENDING, PipelineState.FULL, PipelineState.HELD)

PIPELINE = TransitionTable(
    "segment pipeline",
    "The entries of one writer session between its buffer and their acknowledgement.",
    PipelineState.SENDING,
    {
        (PipelineState.SENDING, PipelineEvent.FILL): PipelineState.FULL,
        (PipelineState.FULL, PipelineEvent.DRAIN): PipelineState.SENDING,
        (PipelineState.SENDING, PipelineEvent.HOLD): PipelineState.HELD,
        (PipelineState.FULL, PipelineEvent.HOLD): PipelineState.HELD,
        **{(state, PipelineEvent.BREAK): PipelineState.BROKEN for state in _HEALTHY},
        (PipelineState.HELD, PipelineEvent.SWITCH): PipelineState.SENDING,
        (PipelineState.BROKEN, PipelineEvent.SWITCH): PipelineState.SENDING,
        **{
            (state, PipelineEvent.FAIL): PipelineState.FAILED
            for state in (*_HEALTHY, PipelineState.BROKEN)
        },
        (PipelineState.FAILED, PipelineEvent.ABANDON): PipelineState.ABANDONED,
    },
)
