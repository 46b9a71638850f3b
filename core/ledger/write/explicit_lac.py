"""Sends a LAC to bookies without an entry (rule LED-21).

It is used for the last entries before a pause, so that readers learn that they are confirmed, and
to introduce a new ledger. A bookie accepts no add before it has read in the ledger's metadata that
it is a member. If the bookie is told when the ledger is created, it reads the metadata while the
metadata store is known to respond. Otherwise it would read with the first entry, perhaps hours
later while the store is unavailable.
"""

import asyncio
from collections.abc import Callable, Sequence

from ...protocol.bookie_id import has_incarnation
from ...protocol.errors import OwnershipLostError, RhumblineError
from ...protocol.ledger_metadata import NO_ENTRY
from ...protocol.quorum import QuorumView
from ...runtime.tasks import wait_at_most
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from ...wire.entry import EntryDigest, encode_lac
from ..connection.ensemble_request import ask_members
from ..replica import Replica
from .writer_state import WriterState

_INTRODUCTION_MS_MAX = 1_000
"""Longest wait for an introduction: it is an optimization, and the ledger works without it."""


class ExplicitLac:
    """Sends the LAC of one writer. ``fail`` is called if a bookie responds that it was fenced."""

    def __init__(
        self,
        state: WriterState,
        digest: EntryDigest,
        key: bytes,
        fail: Callable[[RhumblineError], None],
    ) -> None:
        self._state = state
        self._digest = digest
        self._key = key
        self._fail = fail

    def send(self, on_done: Callable[[bool], None]) -> bool:
        """Sends the LAC to the whole ensemble. See ``LedgerWriter.send_explicit_lac``."""
        state = self._state
        if state.last_add_confirmed < 0 or state.failure is not None:
            return False
        return self._send(state.replicas, state.last_add_confirmed, on_done)

    async def introduce(self) -> None:
        """Tells the bookies of a new ledger, and waits until P of them know it or all responded.

        Errors are ignored: a bookie that was not told reads the metadata with its first entry.
        Apache's bookies do not read the metadata, so they are not told.
        """
        state = self._state
        if state.failure is not None:
            return
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        replicas = [replica for replica in state.replicas if has_incarnation(replica.bookie)]

        def on_done(is_quorum: bool) -> None:
            if not done.done():
                done.set_result(is_quorum)

        if self._send(replicas, NO_ENTRY, on_done):
            await wait_at_most(done, _INTRODUCTION_MS_MAX / 1000)

    def _send(self, replicas: Sequence[Replica], lac: int, on_done: Callable[[bool], None]) -> bool:
        state = self._state
        body = encode_lac(self._digest, state.ledger_id, lac)
        request = v3.write_lac_request(0, state.ledger_id, lac, self._key, body)
        bookies = [replica.bookie for replica in state.replicas]
        members = [replica.index for replica in replicas]
        tally = _Tally(state.view, members, self._fail, on_done)
        sent = ask_members(state.context.pool, bookies, members, request, tally.on_answer)
        tally.is_done = not sent  # the caller learns it from the result
        return sent != 0


class _Tally:
    """Counts the answers to one LAC.

    It calls ``on_done`` once: with True when P of the bookies have stored the LAC, or with False
    when all have answered and P have not.
    """

    def __init__(
        self,
        view: QuorumView,
        members: Sequence[int],
        fail: Callable[[RhumblineError], None],
        on_done: Callable[[bool], None],
    ) -> None:
        self._view = view
        self._fail = fail
        self._on_done = on_done
        self._waiting = 0
        for index in members:
            self._waiting |= 1 << index
        self._stored = 0
        self.is_done = False
        """True if ``on_done`` was called, or must not be called."""

    def on_answer(
        self, index: int, error: RhumblineError | None, response: pb.Response | None
    ) -> None:
        """Count the answer of one bookie."""
        del response
        self._waiting &= ~(1 << index)
        if error is None:
            self._stored |= 1 << index
        elif isinstance(error, OwnershipLostError):
            self._fail(error)
        if not self.is_done:
            is_quorum = self._view.is_acked(self._stored)
            if is_quorum or not self._waiting:
                self.is_done = True
                self._on_done(is_quorum)
