"""The table of ownership: a stream that is released never serves again."""

import pytest

from rhumbline.core.protocol.errors import InvariantBrokenError
from rhumbline.core.runtime.state_machine import StateMachine
from rhumbline.proxies.write.ownership import OWNERSHIP, OwnershipEvent, OwnershipState


def machine(*events: OwnershipEvent) -> StateMachine[OwnershipState, OwnershipEvent]:
    found = StateMachine(OWNERSHIP, "ns/s")
    for event in events:
        found.take(event)
    return found


@pytest.mark.parametrize(
    "events",
    [
        (OwnershipEvent.FAIL,),
        (OwnershipEvent.TAKE, OwnershipEvent.RELEASE, OwnershipEvent.END),
        (OwnershipEvent.TAKE, OwnershipEvent.LOSE, OwnershipEvent.END),
        (OwnershipEvent.STOP, OwnershipEvent.END),
    ],
)
def test_nothing_follows_a_release(events: tuple[OwnershipEvent, ...]) -> None:
    released = machine(*events)
    assert released.state is OwnershipState.RELEASED
    assert not any(released.accepts(event) for event in OwnershipEvent)


def test_stream_that_is_being_released_is_not_lost_again() -> None:
    with pytest.raises(InvariantBrokenError) as caught:
        machine(OwnershipEvent.TAKE, OwnershipEvent.RELEASE, OwnershipEvent.LOSE)
    assert caught.value.story.splitlines()[-1].endswith("SERVED -> RELEASING by RELEASE")
