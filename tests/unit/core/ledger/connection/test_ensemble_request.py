"""One request to several members: each answers once, and the first verdict is final."""

import asyncio
from types import SimpleNamespace
from typing import Any

from rhumbline.core.ledger.connection.ensemble_request import EnsembleRequest, ask_members
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import BookieUnavailableError, RhumblineError
from rhumbline.core.wire import v3

BOOKIES = [BookieId(f"b{number}:3181") for number in range(3)]
REQUEST = v3.read_lac_request(0, 7)


class Pool:
    """Links to bookies, of which only ``reachable`` can be connected to."""

    def __init__(self, *reachable: int) -> None:
        self.callbacks: dict[BookieId, Any] = {}
        self._reachable = [BOOKIES[index] for index in reachable]

    def message_link(self, bookie: BookieId) -> Any:  # noqa: ANN401
        def send(request: object, on_response: Any) -> bool:  # noqa: ANN401
            self.callbacks[bookie] = on_response
            return True

        connection = SimpleNamespace(send_message=send)
        return SimpleNamespace(
            connect=lambda: connection if bookie in self._reachable else None,
            last_error=BookieUnavailableError(f"{bookie} is down"),
        )

    def respond(self, index: int, status: v3.Status) -> None:
        self.callbacks[BOOKIES[index]](None, v3.read_lac_response(REQUEST, status))


async def test_unreachable_member_answers_with_the_reason_and_never_inside_the_call() -> None:
    answers: list[tuple[int, str]] = []
    pool: Any = Pool(1)
    sent = ask_members(
        pool, BOOKIES, (0, 1), REQUEST, lambda i, error, _: answers.append((i, str(error)))
    )
    assert sent == 0b010
    assert answers == []
    await asyncio.sleep(0)
    assert answers == [(0, f"{BOOKIES[0]} is down")]
    pool.respond(1, v3.Status.OK)
    assert answers[1:] == [(1, "None")]


async def test_error_status_is_the_error_of_the_answer() -> None:
    answers: list[RhumblineError | None] = []
    pool: Any = Pool(2)
    ask_members(pool, BOOKIES, (2,), REQUEST, lambda i, error, _: answers.append(error))
    pool.respond(2, v3.Status.NO_LEDGER)
    assert [getattr(error, "code", None) for error in answers] == ["no-such-ledger"]


async def test_first_verdict_is_final() -> None:
    seen: list[int] = []

    def tally(index: int, error: RhumblineError | None, _: object) -> str | None:
        seen.append(index)
        return f"after {len(seen)}" if len(seen) >= 2 else None

    pool: Any = Pool(0, 1, 2)
    request = EnsembleRequest(pool, BOOKIES, range(3), REQUEST, tally)
    pool.respond(2, v3.Status.OK)
    assert not request.verdict.done()
    pool.respond(0, v3.Status.OK)
    pool.respond(1, v3.Status.OK)
    assert await request.verdict == "after 2"
    assert seen == [2, 0]
