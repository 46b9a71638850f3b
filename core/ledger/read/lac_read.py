"""Reads the LAC from the bookies of the last fragment, without fencing (rule LED-22)."""

import asyncio
from functools import partial

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
from ...wire.entry import EntryDigest
from ..connection.bookie_pool import BookiePool
from ..connection.v3_responses import error_in, lac_in


async def read_lac(
    pool: BookiePool,
    ledger_id: int,
    digest: EntryDigest,
    fragment: Fragment,
    view: QuorumView,
    *,
    known: int,
    fresh: bool,
) -> int:
    """Returns the largest LAC among enough responses, or the first one above ``known``.

    Responses are enough if every set of bookies that could have acknowledged an entry contains one
    that responded. If ``fresh``, enough responses are always required. Raises UnavailableError if
    there are too few.
    """
    largest = fragment.first_entry_id - 1
    responded = 0
    pending = (1 << len(fragment.bookies)) - 1
    errors: list[RhumblineError] = []
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_response(index: int, error: RhumblineError | None, response: pb.Response | None) -> None:
        nonlocal largest, responded, pending
        if done.done():
            return
        pending &= ~(1 << index)
        error = error_in(error, response)
        if error is None:
            assert response is not None
            try:
                largest = max(largest, lac_in(response, digest, ledger_id))
            except CorruptionError as corrupt:
                error = corrupt
        if error is None or isinstance(error, NoSuchEntryError | NoSuchLedgerError):
            responded |= 1 << index
        else:
            errors.append(error)
        is_higher = not fresh and largest > known
        if is_higher or not pending or view.is_fencing_complete(responded):
            done.set_result(None)

    for index, bookie in enumerate(fragment.bookies):
        link = pool.message_link(bookie)
        connection = link.connect()
        request = v3.read_lac_request(0, ledger_id)
        callback = partial(on_response, index)
        if connection is None or not connection.send_message(request, callback):
            asyncio.get_running_loop().call_soon(callback, link.last_error, None)
    await done
    if (fresh or largest <= known) and not view.is_fencing_complete(responded):
        raise UnavailableError(
            f"ledger {ledger_id}: too few bookies responded with their LAC: {errors[0]}"
        )
    return largest
