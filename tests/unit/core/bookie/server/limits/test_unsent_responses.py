"""Unsent responses of all connections are limited; the peers that read least lose theirs."""

import asyncio

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.server.limits.unsent_responses import (
    COUNTED_BYTES_MIN,
    NOT_READ,
    UnsentHolder,
    UnsentResponses,
)
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, entry, one_bookie

KIB = 1024
LIMIT = 1024 * KIB


class Holder(UnsentHolder):
    """A connection whose peer reads what the test says."""

    def __init__(self, responses: UnsentResponses, host: str = "a") -> None:
        self._responses = responses
        self.host = host
        self.written_bytes = 0
        self.unsent = 0
        self.limits: list[int] = []
        self.reasons: list[str] = []

    @property
    def unsent_bytes(self) -> int:
        return self.unsent

    def write(self, size: int) -> None:
        self.written_bytes += size
        self.unsent += size
        self._responses.hold(self, self.unsent)

    def peer_reads(self, size: int) -> None:
        self.unsent -= size

    def limit_unsent(self, bytes_max: int) -> None:
        self.limits.append(bytes_max)

    def drop(self, reason: str) -> None:
        self.reasons.append(reason)
        self.unsent = 0


async def test_what_was_read_counts_no_more() -> None:
    responses = UnsentResponses(LIMIT)
    one, two = Holder(responses), Holder(responses)
    one.write(100 * KIB)
    one.write(100 * KIB)
    two.write(50 * KIB)
    assert responses.held_bytes == 250 * KIB
    one.peer_reads(150 * KIB)
    two.peer_reads(50 * KIB - COUNTED_BYTES_MIN + 1)
    assert responses.held_bytes == 50 * KIB, "few bytes do not count"
    responses.release(one)
    responses.release(one)
    responses.release(two)
    assert responses.held_bytes == 0


async def test_above_half_of_the_limit_each_connection_gets_an_equal_share() -> None:
    responses = UnsentResponses(LIMIT)
    first, second, small = (Holder(responses) for _ in range(3))
    first.write(512 * KIB)
    assert first.limits == []
    second.write(257 * KIB)
    assert (first.limits, second.limits) == ([], [256 * KIB])
    small.write(32 * KIB)
    assert small.limits == [], "it has less than its share"
    first.write(1)
    assert first.limits == [LIMIT // 2 // 3]
    assert not (first.reasons or second.reasons or small.reasons)


@pytest.mark.run_by(runner=run_jumping)
async def test_connection_that_has_sent_nothing_for_the_longest_time_is_closed_first() -> None:
    responses = UnsentResponses(LIMIT)
    slow, deaf, late = (Holder(responses) for _ in range(3))
    slow.write(400 * KIB)
    await asyncio.sleep(1)
    deaf.write(400 * KIB)
    await asyncio.sleep(1)
    late.write(224 * KIB)
    slow.peer_reads(1)
    assert (slow.reasons, deaf.reasons, late.reasons) == ([], [], [])
    late.write(1)
    assert (slow.reasons, deaf.reasons, late.reasons) == ([], [NOT_READ], [])
    assert responses.held_bytes == slow.unsent + late.unsent


async def test_connections_of_the_address_with_the_most_bytes_are_closed_first() -> None:
    responses = UnsentResponses(LIMIT)
    other = Holder(responses, "b")
    other.write(300 * KIB)
    many = [Holder(responses, "a") for _ in range(40)]
    for holder in many:
        holder.write(20 * KIB)
    closed = [holder for holder in many if holder.reasons]
    assert other.reasons == []
    assert closed == many[: len(closed)]
    assert 0 < len(closed) < 20, "an eighth of the limit is made free, and not more"
    assert responses.held_bytes <= LIMIT


async def test_nothing_is_closed_for_bytes_that_were_read_meanwhile() -> None:
    responses = UnsentResponses(LIMIT)
    holders = [Holder(responses) for _ in range(10)]
    for _ in range(10):
        for holder in holders:
            holder.write(500 * KIB)
            holder.peer_reads(500 * KIB)
    assert not any(holder.reasons for holder in holders)
    assert responses.held_bytes == 0


async def test_clients_that_do_not_read_hold_a_limited_number_of_bytes() -> None:
    payload = bytes(256 * KIB)
    config = BookieConfig(unsent_bytes_max=4 * LIMIT, connection_write_bytes_max=LIMIT)
    async with one_bookie(config) as (_, bookie, wire):
        data = entry(1, 0, payload)
        assert await wire.add(data) == Code.OK
        deaf = [await Wire.connect(bookie) for _ in range(12)]
        for one in deaf:
            one.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(200):
                one.send(v2.encode_read(1, 0))
        async with asyncio.timeout(60):
            while bookie.statistics()["closed"].get(NOT_READ, 0) == 0:
                await asyncio.sleep(0.01)
                assert bookie.statistics()["unsent_bytes"] <= 4 * LIMIT
        assert await wire.read(1, 0) == (Code.OK, data), "others are served"
        assert bookie.statistics()["unsent_bytes"] <= 4 * LIMIT
        for one in deaf:
            one.writer.transport.abort()
