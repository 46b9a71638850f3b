"""Long polls wait for a higher LAC, wherever they are referenced from."""

import asyncio

import pytest

from rhumbline.core.bookie.ledger_records import LedgerRecord
from rhumbline.core.bookie.server.long_poll import LongPollRegistry, ParkedPoll, Poll
from rhumbline.core.protocol.errors import TooManyRequestsError
from rhumbline.tests.support.fakes.jumping_loop import run_jumping


class NotedPoll(Poll):
    """A poll that notes how it was woken."""

    def __init__(self, ledger_id: int = 1, previous_lac: int = 4, timeout_ms: int = 100) -> None:
        super().__init__(ledger_id, previous_lac, timeout_ms)
        self.woken: list[tuple[LedgerRecord | None, bool]] = []

    def wake(self, ledger: LedgerRecord | None, *, has_waited: bool) -> None:
        self.woken.append((ledger, has_waited))


class Bookie:
    """A registry, a ledger with LAC 4, and the polls of one connection."""

    def __init__(self, timeout_ms_max: int = 1_000, polls_max: int = 10) -> None:
        self.registry = LongPollRegistry(timeout_ms_max, polls_max)
        self.ledger = LedgerRecord(1, bytes(20))
        self.ledger.lac = 4
        self.connection: dict[ParkedPoll, None] = {}

    def serve(self, poll: NotedPoll, *, is_known: bool = True) -> NotedPoll:
        self.registry.serve(poll, self.ledger if is_known else None, self.connection)
        return poll

    def assert_empty(self) -> None:
        assert self.registry.parked_count == 0
        assert self.connection == {}
        assert self.ledger.polls is None


async def test_poll_with_news_or_without_time_is_woken_at_once() -> None:
    bookie = Bookie()
    for poll in (NotedPoll(previous_lac=3), NotedPoll(timeout_ms=0), NotedPoll(timeout_ms=-1)):
        assert bookie.serve(poll).woken == [(bookie.ledger, False)]
    assert bookie.serve(NotedPoll(timeout_ms=0), is_known=False).woken == [(None, False)]
    bookie.assert_empty()
    for previous_lac in (4, 5):
        assert bookie.serve(NotedPoll(previous_lac=previous_lac, timeout_ms=1)).woken == []
    assert bookie.registry.parked_count == len(bookie.connection) == 2
    bookie.registry.close()


async def test_only_polls_below_the_lac_are_woken_when_it_rises() -> None:
    bookie = Bookie()
    low, high = bookie.serve(NotedPoll(previous_lac=4)), bookie.serve(NotedPoll(previous_lac=5))
    bookie.ledger.lac = 5
    bookie.registry.lac_advanced(bookie.ledger)
    assert (low.woken, high.woken) == ([(bookie.ledger, True)], [])
    assert bookie.registry.parked_count == len(bookie.connection) == 1
    bookie.registry.wake_all(bookie.ledger)
    assert high.woken == [(bookie.ledger, True)]
    bookie.assert_empty()
    bookie.registry.lac_advanced(bookie.ledger)
    bookie.registry.wake_all(bookie.ledger)
    assert len(low.woken) == len(high.woken) == 1


@pytest.mark.run_by(runner=run_jumping)
async def test_poll_is_woken_by_its_deadline_which_is_bounded() -> None:
    bookie = Bookie(timeout_ms_max=300)
    polls = [NotedPoll(timeout_ms=timeout_ms) for timeout_ms in (100, 300, 5_000)]
    for poll in polls[:2]:
        bookie.serve(poll)
    bookie.serve(polls[2], is_known=False)
    await asyncio.sleep(0.095)
    assert [poll.woken for poll in polls] == [[], [], []]
    await asyncio.sleep(0.02)
    assert [poll.woken for poll in polls] == [[(bookie.ledger, True)], [], []]
    await asyncio.sleep(0.18)
    assert polls[1].woken == []
    await asyncio.sleep(0.02)
    assert polls[1].woken == [(bookie.ledger, True)]
    assert polls[2].woken == [(None, True)]
    bookie.assert_empty()


async def test_poll_of_an_unknown_ledger_moves_to_it_when_it_is_created() -> None:
    bookie = Bookie()
    first, second = (bookie.serve(NotedPoll(), is_known=False) for _ in range(2))
    other = bookie.serve(NotedPoll(ledger_id=2), is_known=False)
    bookie.registry.ledger_created(bookie.ledger)
    assert bookie.ledger.polls is not None
    assert len(bookie.ledger.polls) == 2
    bookie.ledger.lac = 5
    bookie.registry.lac_advanced(bookie.ledger)
    assert first.woken == second.woken == [(bookie.ledger, True)]
    assert other.woken == []
    bookie.registry.drop(bookie.connection)
    bookie.assert_empty()
    bookie.registry.ledger_created(LedgerRecord(2, bytes(20)))
    assert other.woken == []


async def test_polls_of_a_connection_are_limited_and_dropped_with_it() -> None:
    bookie = Bookie(polls_max=2)
    polls = [bookie.serve(NotedPoll()), bookie.serve(NotedPoll(), is_known=False)]
    refused = NotedPoll()
    with pytest.raises(TooManyRequestsError, match=r"^2 long polls .* \(at most 2\)$"):
        bookie.serve(refused)
    assert bookie.serve(NotedPoll(previous_lac=0)).woken, "this one needs not wait"
    kept: dict[ParkedPoll, None] = {}
    other = NotedPoll()
    bookie.registry.serve(other, bookie.ledger, kept)
    bookie.registry.drop(bookie.connection)
    assert bookie.registry.parked_count == 1
    assert bookie.ledger.polls == kept
    assert [poll.woken for poll in [*polls, refused, other]] == [[], [], [], []]
    bookie.registry.drop(kept)
    bookie.assert_empty()


@pytest.mark.run_by(runner=run_jumping)
async def test_closed_registry_wakes_nothing() -> None:
    bookie = Bookie()
    poll = bookie.serve(NotedPoll())
    bookie.registry.close()
    await asyncio.sleep(1)
    assert (poll.woken, bookie.registry.parked_count) == ([], 0)
