"""The states of a stream at one write proxy.

A proxy has a state only for the streams that it takes over, serves or releases. Two proxies may
serve the same stream for a short time; the log decides between them (rule PRX-1).
"""

from enum import Enum, unique

from ...core.runtime.state_machine import TransitionTable


@unique
class OwnershipState(Enum):
    """The states of a stream at a proxy."""

    TAKING = "The proxy claims the stream and opens its writer. Record sets wait."
    SERVED = "Record sets are appended."
    RELEASING = "The writer is being closed and the claim deleted. Record sets are redirected."
    RELEASED = "The proxy has forgotten the stream. The next record set begins a new takeover."


@unique
class OwnershipEvent(Enum):
    """The events in the ownership of a stream."""

    TAKE = "the writer is open and the claim holds"
    FAIL = "another proxy should serve the stream, or it could not be taken over in time"
    STOP = "the proxy stops during the takeover"
    RELEASE = "an operator, a better placed proxy or the end of the stream asks for it"
    LOSE = "the writer failed or was fenced, or the proxy's session ended"
    END = "the writer is closed and the claim is deleted, or will be with its session"


OWNERSHIP = TransitionTable(
    "stream at a write proxy",
    "The ownership of one stream by one write proxy.",
    OwnershipState.TAKING,
    {
        (OwnershipState.TAKING, OwnershipEvent.TAKE): OwnershipState.SERVED,
        (OwnershipState.TAKING, OwnershipEvent.FAIL): OwnershipState.RELEASED,
        (OwnershipState.TAKING, OwnershipEvent.STOP): OwnershipState.RELEASING,
        (OwnershipState.SERVED, OwnershipEvent.RELEASE): OwnershipState.RELEASING,
        (OwnershipState.SERVED, OwnershipEvent.LOSE): OwnershipState.RELEASING,
        (OwnershipState.RELEASING, OwnershipEvent.END): OwnershipState.RELEASED,
    },
)
