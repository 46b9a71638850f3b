"""A bookie that hangs is found by a request without I/O, while long polls wait at it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rhumbline.core.ledger.connection.hang_detector import HangDetector
from rhumbline.core.ledger.connection.link_traffic import LinkTraffic
from rhumbline.core.ledger.read_policy import ReplicaChoice
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import BookieUnavailableError
from rhumbline.tests.unit.core.ledger.world import run_in_world

pytestmark = pytest.mark.run_by(runner=run_in_world)

CHOICE = ReplicaChoice(0, BookieId("b0@00000000"), "a", has_failed=False)
LOST = BookieUnavailableError("lost")


class Bookie:
    """A bookie and the connection to it. It responds after ``round_trip_s``, or never if None."""

    def __init__(self, round_trip_s: float | None = 0.001) -> None:
        self.round_trip_s = round_trip_s
        self.traffic = LinkTraffic()
        self.detector = HangDetector(self.traffic)
        self.probed_at: list[float] = []
        self.has_room = True

    def send_message(self, request: Any, on_response: Callable[..., None]) -> bool:  # noqa: ANN401
        if not self.has_room:
            return False
        assert request.HasField("get_bookie_info_request")
        loop = asyncio.get_running_loop()
        self.probed_at.append(loop.time())
        if self.round_trip_s is not None:
            loop.call_later(self.round_trip_s, self.respond, on_response)
        return True

    def respond(self, on_response: Callable[..., None] = lambda *_: None) -> None:
        self.traffic.received_bytes += 10
        on_response(None, None)

    def begin(self, poll: "Poll") -> None:
        connection: Any = self
        self.detector.begin(connection, poll, CHOICE)


class Poll:
    """A long poll that notes when the replica seemed to hang."""

    def __init__(self) -> None:
        self.silent_at: list[float] = []

    def on_silent(self, choice: ReplicaChoice) -> None:
        assert choice is CHOICE
        self.silent_at.append(asyncio.get_running_loop().time())


async def test_bookie_that_does_not_respond_to_a_request_without_io_hangs() -> None:
    bookie, polls = Bookie(None), [Poll(), Poll()]
    for poll in polls:
        bookie.begin(poll)
    await asyncio.sleep(5)
    assert bookie.probed_at == [0.25], "one request for all polls"
    assert [poll.silent_at for poll in polls] == [[0.5], [0.5]]
    late = Poll()
    bookie.begin(late)
    await asyncio.sleep(0.01)
    assert late.silent_at == [5.0], "later polls learn it at once"


async def test_bookie_that_responds_is_asked_once_per_half_second_and_hangs_never() -> None:
    bookie, poll = Bookie(), Poll()
    bookie.begin(poll)
    await asyncio.sleep(2.1)
    assert bookie.probed_at == [0.25, 0.75, 1.25, 1.75]
    assert poll.silent_at == []


async def test_bookie_that_sends_anything_is_not_asked() -> None:
    bookie, poll = Bookie(), Poll()
    bookie.begin(poll)
    for _ in range(20):
        bookie.respond()
        await asyncio.sleep(0.1)
    assert (bookie.probed_at, poll.silent_at) == ([], [])


async def test_response_ends_the_silence_and_the_next_one_is_found_too() -> None:
    bookie, poll = Bookie(None), Poll()
    bookie.begin(poll)
    await asyncio.sleep(1.9)
    bookie.respond()
    fresh = Poll()
    bookie.begin(fresh)
    await asyncio.sleep(0.3)
    assert fresh.silent_at == []
    await asyncio.sleep(1)
    assert len(fresh.silent_at) == 1
    assert len(poll.silent_at) == 2


async def test_far_bookie_has_twice_its_round_trip() -> None:
    bookie, poll = Bookie(0.6), Poll()
    bookie.begin(poll)
    await asyncio.sleep(10)
    assert poll.silent_at == [0.5], "only before the round trip was known"
    assert len(bookie.probed_at) > 5


async def test_nothing_runs_while_no_poll_waits() -> None:
    bookie, poll = Bookie(None), Poll()
    bookie.begin(poll)
    bookie.detector.end(poll, CHOICE)
    bookie.detector.end(poll, CHOICE)
    await asyncio.sleep(0.3)
    loop: Any = asyncio.get_running_loop()
    assert [handle for handle in loop._scheduled if not handle.cancelled()] == []
    assert (bookie.probed_at, poll.silent_at) == ([], [])


async def test_connection_without_room_is_asked_later() -> None:
    bookie, poll = Bookie(None), Poll()
    bookie.has_room = False
    bookie.begin(poll)
    await asyncio.sleep(1.1)
    assert poll.silent_at == []
    bookie.has_room = True
    await asyncio.sleep(1)
    assert bookie.probed_at == [1.25]
    assert poll.silent_at == [1.5]
