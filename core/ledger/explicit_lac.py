"""Tells bookies a LAC without an entry: for the last entries before a pause."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ..protocol.errors import OwnershipLostError, RhumblineError
from ..wire import bookkeeper_pb2 as pb
from ..wire import v3
from ..wire.entry import EntryDigest, encode_lac
from .answers import error_in
from .replica import Replica

if TYPE_CHECKING:
    from .writer import LedgerWriter


async def publish_lac(writer: "LedgerWriter", digest: EntryDigest, key: bytes) -> None:
    """Sends the LAC to the whole ensemble; returns when P took it or everybody has answered."""
    lac = writer.last_add_confirmed
    if lac < 0 or writer.failure is not None:
        return
    body = encode_lac(digest, writer.ledger_id, lac)
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    view = writer.view
    waiting = took = 0

    def on_answer(
        replica: Replica, error: RhumblineError | None, response: pb.Response | None
    ) -> None:
        nonlocal waiting, took
        waiting &= ~replica.bit
        error = error_in(error, response)
        if error is None:
            took |= replica.bit
        elif isinstance(error, OwnershipLostError):
            writer.fail(error)
        if not done.done() and (not waiting or view.is_acked(took)):
            done.set_result(None)

    for replica in writer.replicas:
        connection = writer.context.pool.message_link(replica.bookie).connect()
        request = v3.write_lac_request(0, writer.ledger_id, lac, key, body)
        if connection is not None and connection.send_message(request, partial(on_answer, replica)):
            waiting |= replica.bit
    if waiting:
        await done
