"""Makes bookies renew their copies of a ledger's metadata, after its R was lowered (rule BAK-11).

The copies are what is left if the metadata store is lost. With copies of the former, higher R, a
rebuild would drop entries that were acknowledged under the lower one.
"""

import asyncio
from collections.abc import Sequence

from ..protocol.bookie_id import BookieId, has_incarnation
from ..protocol.errors import RhumblineError
from ..protocol.ledger_metadata import NO_ENTRY
from ..runtime.tasks import wait_at_most
from ..wire import bookkeeper_pb2 as pb
from ..wire import v3
from ..wire.entry import EntryDigest, encode_lac
from .connection.bookie_pool import BookiePool
from .connection.ensemble_request import ask_members

_WAIT_S_MAX = 1.0
"""Time in which bookies have to confirm."""


async def renew_copies(
    pool: BookiePool, ledger_id: int, bookies: Sequence[BookieId], digest: EntryDigest, key: bytes
) -> int:
    """Makes bookies read the metadata again; returns the bit mask of those that did not confirm it.

    The others have journaled what the store held after this call. Apache's bookies keep no copies
    and are not asked.
    """
    asked = [index for index, bookie in enumerate(bookies) if has_incarnation(bookie)]
    waiting = old_copies = sum(1 << index for index in asked)
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_answer(index: int, error: RhumblineError | None, response: pb.Response | None) -> None:
        nonlocal waiting, old_copies
        del response
        waiting &= ~(1 << index)
        if error is None:
            old_copies &= ~(1 << index)
        if not waiting and not done.done():
            done.set_result(None)

    body = encode_lac(digest, ledger_id, NO_ENTRY)
    request = v3.write_lac_request(0, ledger_id, NO_ENTRY, key, body)
    if ask_members(pool, bookies, asked, request, on_answer):
        await wait_at_most(done, _WAIT_S_MAX)
    return old_copies
