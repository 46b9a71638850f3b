"""LAC reads: how many responses are enough, and which LAC is returned."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rhumbline.core.ledger.read.lac_read import read_lac
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import BookieUnavailableError, UnavailableError
from rhumbline.core.protocol.ledger_metadata import DigestType, Fragment
from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire import v3
from rhumbline.core.wire.entry import EntryDigest, encode_lac

BOOKIES = tuple(BookieId(f"b{number}@00000000") for number in range(3))
DIGEST = EntryDigest(DigestType.CRC32C)
FRAGMENT = Fragment(10, BOOKIES)
LOST = BookieUnavailableError("lost")


class Pool:
    """Links to bookies that are all reachable; a test responds for them."""

    def __init__(self) -> None:
        self.callbacks: dict[BookieId, Any] = {}
        self.requests: list[pb.Request] = []

    def message_link(self, bookie: BookieId) -> Any:  # noqa: ANN401
        def send(request: pb.Request, on_response: Any) -> bool:  # noqa: ANN401
            self.requests.append(request)
            self.callbacks[bookie] = on_response
            return True

        return SimpleNamespace(connect=lambda: SimpleNamespace(send_message=send), last_error=LOST)

    async def respond(
        self, index: int, lac: int | None, status: v3.Status = v3.Status.OK, *, ledger_id: int = 7
    ) -> None:
        body = None if lac is None else encode_lac(DIGEST, ledger_id, lac)
        response = v3.read_lac_response(self.requests[index], status, lac_body=body)
        self.callbacks[BOOKIES[index]](None, response)
        await asyncio.sleep(0.001)

    async def lose(self, index: int) -> None:
        self.callbacks[BOOKIES[index]](LOST, None)
        await asyncio.sleep(0.001)


async def started(
    known: int, *, fresh: bool, quorum: Quorum | None = None
) -> tuple[Pool, asyncio.Task[int]]:
    """Start a LAC read of ledger 7; by default two responses are needed (AQ = 2 of 3)."""
    pool: Any = Pool()
    view = QuorumView(quorum or Quorum(3, 3, 2, 1), ["a", "b", "c"])
    reading = asyncio.get_running_loop().create_task(
        read_lac(pool, 7, DIGEST, FRAGMENT, view, known=known, fresh=fresh)
    )
    await asyncio.sleep(0.001)
    return pool, reading


async def test_every_bookie_of_the_fragment_is_asked_for_the_ledger() -> None:
    pool, reading = await started(-1, fresh=True)
    assert list(pool.callbacks) == list(BOOKIES)
    assert {request.read_lac_request.ledger_id for request in pool.requests} == {7}
    await pool.respond(0, 12)
    assert not reading.done()
    await pool.respond(2, 15)
    assert await reading == 15


async def test_largest_lac_counts_and_it_is_at_least_the_one_before_the_fragment() -> None:
    pool, reading = await started(-1, fresh=True)
    await pool.respond(0, 15)
    await pool.respond(1, 12)
    assert await reading == 15
    pool, reading = await started(-1, fresh=True)
    await pool.respond(0, 3)
    await pool.respond(1, 4)
    assert await reading == 9


async def test_first_higher_lac_is_enough_unless_it_must_be_fresh() -> None:
    pool, reading = await started(11, fresh=False)
    await pool.respond(0, 12)
    assert await reading == 12
    pool, reading = await started(12, fresh=False)
    await pool.respond(0, 12)
    assert not reading.done()
    await pool.respond(1, 12)
    assert await reading == 12


@pytest.mark.parametrize("status", [v3.Status.NO_ENTRY, v3.Status.NO_LEDGER])
async def test_bookie_without_the_ledger_counts_as_a_response(status: v3.Status) -> None:
    pool, reading = await started(-1, fresh=True)
    await pool.respond(0, None, status)
    await pool.respond(1, 12)
    assert await reading == 12


async def test_errors_and_damaged_lacs_are_no_responses() -> None:
    pool, reading = await started(-1, fresh=True)
    await pool.lose(0)
    await pool.respond(1, 20, ledger_id=8)
    assert not reading.done()
    await pool.respond(2, 12)
    with pytest.raises(UnavailableError, match=r"too few bookies responded with their LAC: lost$"):
        await reading


async def test_one_lost_bookie_is_tolerated() -> None:
    pool, reading = await started(-1, fresh=True)
    await pool.lose(1)
    await pool.respond(0, 12)
    await pool.respond(2, 11)
    assert await reading == 12


async def test_higher_lac_is_returned_although_all_others_are_lost_if_it_need_not_be_fresh() -> (
    None
):
    pool, reading = await started(11, fresh=False)
    await pool.lose(0)
    await pool.lose(1)
    await pool.respond(2, 12)
    assert await reading == 12


async def test_known_lac_from_too_few_bookies_is_no_result() -> None:
    pool, reading = await started(12, fresh=False)
    await pool.lose(0)
    await pool.lose(1)
    await pool.respond(2, 12)
    with pytest.raises(UnavailableError):
        await reading


async def test_regions_decide_how_many_responses_are_enough() -> None:
    """With AQ = 3 one response covers every acknowledgement."""
    pool, reading = await started(-1, fresh=True, quorum=Quorum(3, 3, 3, 3))
    await pool.respond(1, 12)
    assert await reading == 12
