"""The states of a producer that sends its sets again (rules PRX-11, PRX-13)."""

from enum import Enum, unique

from ...core.runtime.state_machine import TransitionTable


@unique
class SenderState(Enum):
    """The states of a sender."""

    SENDING = "Sets are sent in order, to one proxy, as far as the limits in flight allow."
    SETTLING = "Nothing is sent. The sets in flight wait for their results."
    PAUSING = "No set is in flight, and the address of the next attempt is chosen."
    FAILED = "Every set has a result, and nothing is sent any more."


@unique
class SenderEvent(Enum):
    """The events of a sender."""

    REFUSE = "a set was refused, or the call ended without its result, and a retry is permitted"
    SETTLE = "every set in flight has a result, or the call has ended"
    RESUME = (
        "the pause is over: the sets that are not acknowledged are sent again, the first of them "
        "with `restarts` and the addresses in `tried`"
    )
    FAIL = (
        "an error that permits no retry, the deadline of the oldest set, or the end of the client"
    )


SENDER = TransitionTable(
    "sender of a thin client",
    "One numbered producer of one stream, which sends its record sets through proxies.",
    SenderState.SENDING,
    {
        (SenderState.SENDING, SenderEvent.REFUSE): SenderState.SETTLING,
        (SenderState.SETTLING, SenderEvent.SETTLE): SenderState.PAUSING,
        (SenderState.PAUSING, SenderEvent.RESUME): SenderState.SENDING,
        (SenderState.SENDING, SenderEvent.FAIL): SenderState.FAILED,
        (SenderState.SETTLING, SenderEvent.FAIL): SenderState.FAILED,
        (SenderState.PAUSING, SenderEvent.FAIL): SenderState.FAILED,
    },
)
