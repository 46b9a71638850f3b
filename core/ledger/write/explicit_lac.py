"""Tells bookies a LAC without an entry: for the last entries before a pause, and of a ledger that
has none yet.

That one introduces the ledger. A bookie takes no add of a ledger before it has read in the metadata
that it is one of the ledger's; told beforehand it reads that while the metadata store answers (it
has just stored the ledger), and not when the first entry comes, hours later perhaps and with the
store away.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.bookie_id import is_incarnate
from ...protocol.errors import OwnershipLostError, RhumblineError
from ...protocol.ledger_metadata import NO_ENTRY
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from ...wire.entry import EntryDigest, encode_lac
from ..connection.v3_responses import error_in
from .replica import Replica

if TYPE_CHECKING:
    from .ledger_writer import LedgerWriter

_INTRODUCTION_MS_MAX = 1_000
"""Nobody waits longer for what is only a help."""


def tell_lac(
    writer: "LedgerWriter", digest: EntryDigest, key: bytes, on_done: Callable[[bool], None]
) -> bool:
    """Sends the LAC to the whole ensemble; False: to nobody, and nothing will be called back.

    ``on_done``, once: True when P took it, False when all have answered and P did not.
    """
    lac = writer.last_add_confirmed
    if lac < 0 or writer.failure is not None:
        return False
    return _tell(writer, writer.replicas, lac, digest=digest, key=key, on_done=on_done)


async def introduce(writer: "LedgerWriter", digest: EntryDigest, key: bytes) -> None:
    """Tells the bookies of a new ledger, and waits until P of them know it, or all have answered.

    What none of them answers is no error: then they look the ledger up with its first entry.
    Apache's bookies ask nobody, so they are told nothing.
    """
    if writer.failure is not None:
        return
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    ours = [replica for replica in writer.replicas if is_incarnate(replica.bookie)]

    def on_done(took: bool) -> None:
        if not done.done():
            done.set_result(took)

    if _tell(writer, ours, NO_ENTRY, digest=digest, key=key, on_done=on_done):
        with suppress(TimeoutError):
            async with asyncio.timeout(_INTRODUCTION_MS_MAX / 1000):
                await done


def _tell(
    writer: "LedgerWriter",
    replicas: Sequence[Replica],
    lac: int,
    *,
    digest: EntryDigest,
    key: bytes,
    on_done: Callable[[bool], None],
) -> bool:
    body = encode_lac(digest, writer.ledger_id, lac)
    view = writer.view
    waiting = took = 0
    is_done = False

    def on_answer(
        replica: Replica, error: RhumblineError | None, response: pb.Response | None
    ) -> None:
        nonlocal waiting, took, is_done
        waiting &= ~replica.bit
        error = error_in(error, response)
        if error is None:
            took |= replica.bit
        elif isinstance(error, OwnershipLostError):
            writer.fail(error)
        if not is_done and (not waiting or view.is_acked(took)):
            is_done = True
            on_done(view.is_acked(took))

    for replica in replicas:
        connection = writer.context.pool.message_link(replica.bookie).connect()
        request = v3.write_lac_request(0, writer.ledger_id, lac, key, body)
        if connection is not None and connection.send_message(request, partial(on_answer, replica)):
            waiting |= replica.bit
    return waiting != 0
