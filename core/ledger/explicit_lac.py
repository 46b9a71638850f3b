"""Tells bookies a LAC without an entry: for the last entries before a pause."""

from collections.abc import Callable
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


def tell_lac(
    writer: "LedgerWriter", digest: EntryDigest, key: bytes, on_done: Callable[[bool], None]
) -> bool:
    """Sends the LAC to the whole ensemble; False: to nobody, and nothing will be called back.

    ``on_done``, once: True when P took it, False when all have answered and P did not.
    """
    lac = writer.last_add_confirmed
    if lac < 0 or writer.failure is not None:
        return False
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

    for replica in writer.replicas:
        connection = writer.context.pool.message_link(replica.bookie).connect()
        request = v3.write_lac_request(0, writer.ledger_id, lac, key, body)
        if connection is not None and connection.send_message(request, partial(on_answer, replica)):
            waiting |= replica.bit
    return waiting != 0
