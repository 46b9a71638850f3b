"""Sends one request to several members of an ensemble; the caller tallies their answers.

LAC reads, fencing reads, the reads of a recovery and explicit LACs work like this. Each has a tally
of its own, which decides under a ``QuorumView`` when the answers suffice.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Generic, TypeVar

from ...protocol.bookie_id import BookieId
from ...protocol.errors import RhumblineError
from ...wire import bookkeeper_pb2 as pb
from .bookie_pool import BookiePool
from .v3_responses import error_in

V = TypeVar("V")
OnAnswer = Callable[[int, RhumblineError | None, pb.Response | None], object]
"""Callback with the index of a member, and its error or its response without an error."""


def ask_members(
    pool: BookiePool,
    bookies: Sequence[BookieId],
    members: Iterable[int],
    request: pb.Request,
    on_answer: OnAnswer,
) -> int:
    """Sends a v3 request to some members of an ensemble, given by index.

    ``on_answer`` is called once for each of them, never inside this call. A member that cannot be
    reached answers with the reason. Returns the bit mask of those to which the request was sent.
    """
    sent = 0
    for index in members:
        link = pool.message_link(bookies[index])
        connection = link.connect()
        callback = partial(_on_response, on_answer, index)
        if connection is not None and connection.send_message(request, callback):
            sent |= 1 << index
        else:
            asyncio.get_running_loop().call_soon(callback, link.last_error, None)
    return sent


def _on_response(
    on_answer: OnAnswer, index: int, error: RhumblineError | None, response: pb.Response | None
) -> None:
    on_answer(index, error_in(error, response), response)


class EnsembleRequest(Generic[V]):
    """A request whose answers are passed to ``tally`` until that returns a verdict.

    The first verdict is final; later answers are ignored. ``tally`` must have a verdict at the
    latest when all members have answered.
    """

    __slots__ = ("_tally", "verdict")

    def __init__(
        self,
        pool: BookiePool,
        bookies: Sequence[BookieId],
        members: Iterable[int],
        request: pb.Request,
        tally: Callable[[int, RhumblineError | None, pb.Response | None], V | None],
    ) -> None:
        self.verdict: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._tally = tally
        ask_members(pool, bookies, members, request, self._on_answer)

    def _on_answer(
        self, index: int, error: RhumblineError | None, response: pb.Response | None
    ) -> None:
        if not self.verdict.done():
            verdict = self._tally(index, error, response)
            if verdict is not None:
                self.verdict.set_result(verdict)
