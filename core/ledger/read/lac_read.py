"""Asks the bookies of the last fragment what is confirmed, without fencing."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import (
    CorruptionError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RhumblineError,
    UnavailableError,
)
from ...protocol.ledger_metadata import Fragment
from ...protocol.quorum import QuorumView
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from ..connection.v3_responses import error_in, lac_in

if TYPE_CHECKING:
    from .ledger_reader import LedgerReader


async def read_lac(
    reader: "LedgerReader", fragment: Fragment, view: QuorumView, *, fresh: bool
) -> int:
    """The largest LAC among enough answers; with ``fresh`` false the first that is news.

    Enough: no set of bookies that could have acknowledged an entry is without one that answered.
    Raises UnavailableError when that cannot be had.
    """
    pool = reader.context.pool
    known = reader.last_add_confirmed
    largest = fragment.first_entry_id - 1
    heard = 0
    waiting = (1 << len(fragment.bookies)) - 1
    errors: list[RhumblineError] = []
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_answer(index: int, error: RhumblineError | None, response: pb.Response | None) -> None:
        nonlocal largest, heard, waiting
        if done.done():
            return
        waiting &= ~(1 << index)
        error = error_in(error, response)
        if error is None:
            assert response is not None
            try:
                largest = max(largest, lac_in(response, reader.digest, reader.ledger_id))
            except CorruptionError as corrupt:
                error = corrupt
        if error is None or isinstance(error, NoSuchEntryError | NoSuchLedgerError):
            heard |= 1 << index
        else:
            errors.append(error)
        is_news = not fresh and largest > known
        if is_news or not waiting or view.is_fencing_complete(heard):
            done.set_result(None)

    for index, bookie in enumerate(fragment.bookies):
        link = pool.message_link(bookie)
        connection = link.connect()
        request = v3.read_lac_request(0, reader.ledger_id)
        answer = partial(on_answer, index)
        if connection is None or not connection.send_message(request, answer):
            asyncio.get_running_loop().call_soon(answer, link.last_error, None)
    await done
    if (fresh or largest <= known) and not view.is_fencing_complete(heard):
        raise UnavailableError(
            f"ledger {reader.ledger_id}: too few bookies say what is confirmed: {errors[0]}"
        )
    return largest
