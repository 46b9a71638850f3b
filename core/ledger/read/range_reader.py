"""Reads consecutive entries of one fragment from its replicas and verifies them."""

from collections import deque

from ...protocol.bookie_id import has_incarnation
from ...protocol.errors import CorruptionError, RhumblineError
from ...protocol.ledger_metadata import Fragment
from ...protocol.quorum import QuorumView
from ...wire.entry import Entry, EntryDigest, decode_entry
from ..context import LedgerContext
from ..read_policy import ReplicaChoice
from .replica_order import ReplicaOrder
from .speculative_request import OnReply, SpeculativeRequest

_SINGLE_READS_MAX = 64  # concurrent reads of single entries


class RangeReader:
    """The reads of one ledger. Every entry is verified: entry id, ledger id and digest."""

    __slots__ = ("_context", "_digest", "_ledger_id", "_replicas")

    def __init__(
        self, context: LedgerContext, replicas: ReplicaOrder, ledger_id: int, digest: EntryDigest
    ) -> None:
        self._context = context
        self._replicas = replicas
        self._ledger_id = ledger_id
        self._digest = digest

    async def read(
        self, fragment: Fragment, view: QuorumView, first: int, last: int
    ) -> list[Entry]:
        """Returns one or more entries from ``first`` on, at most up to ``last``, in order.

        Raises the error of the replicas of ``first``: UnavailableError, CorruptionError, or
        NoSuchEntryError if all of them respond that they never had it.
        """
        assert fragment.first_entry_id <= first <= last
        is_striped = view.quorum.ensemble_size != view.quorum.write_quorum
        if first == last or is_striped or not all(map(has_incarnation, fragment.bookies)):
            return await self._read_singly(fragment, view, first, last)
        request: SpeculativeRequest[list[Entry]] = SpeculativeRequest(
            self._order(fragment, view, first),
            lambda choice, on_reply: self._send_batch(choice, first, last, on_reply),
            pool=self._context.pool,
            policy=self._context.reads,
        )
        _, entries = await request.result
        return entries

    async def _read_singly(
        self, fragment: Fragment, view: QuorumView, first: int, last: int
    ) -> list[Entry]:
        requests: deque[SpeculativeRequest[Entry]] = deque()
        entries: list[Entry] = []
        size = 0
        next_id = first
        while next_id <= last or requests:
            while next_id <= last and len(requests) < _SINGLE_READS_MAX:
                requests.append(self._request_one(fragment, view, next_id))
                next_id += 1
            try:
                _, entry = await requests.popleft().result
            except RhumblineError:
                if entries:
                    return entries
                raise
            entries.append(entry)
            size += len(entry.payload)
            if size >= self._context.config.read_batch_bytes_max:
                break
        return entries

    def _request_one(
        self, fragment: Fragment, view: QuorumView, entry_id: int
    ) -> SpeculativeRequest[Entry]:
        return SpeculativeRequest(
            self._order(fragment, view, entry_id),
            lambda choice, on_reply: self._send_one(choice, entry_id, on_reply),
            pool=self._context.pool,
            policy=self._context.reads,
        )

    def _order(self, fragment: Fragment, view: QuorumView, entry_id: int) -> list[ReplicaChoice]:
        return self._replicas.choose(fragment.bookies, view, view.quorum.write_set(entry_id))

    def _send_one(self, choice: ReplicaChoice, entry_id: int, on_reply: OnReply[Entry]) -> bool:
        def on_response(error: RhumblineError | None, data: bytes) -> None:
            entry = None
            if error is None:
                try:
                    entry = decode_entry(self._digest, self._ledger_id, entry_id, data)
                except CorruptionError as corrupt:
                    error = corrupt
            on_reply(error, entry)

        connection = self._context.pool.link(choice.bookie).connect()
        return connection is not None and connection.send_read(
            self._ledger_id, entry_id, on_response
        )

    def _send_batch(
        self, choice: ReplicaChoice, first: int, last: int, on_reply: OnReply[list[Entry]]
    ) -> bool:
        def on_response(error: RhumblineError | None, found: list[bytes | memoryview]) -> None:
            entries: list[Entry] = []
            if error is None:
                try:
                    for entry_id, data in zip(range(first, last + 1), found, strict=False):
                        entries.append(decode_entry(self._digest, self._ledger_id, entry_id, data))
                    if not found:
                        raise CorruptionError(
                            f"{choice.bookie} responded to a batch read without entries"
                        )
                except CorruptionError as corrupt:
                    # Entries before a corrupt copy are valid; it is read from another replica.
                    error = None if entries else corrupt
            on_reply(error, entries)

        connection = self._context.pool.link(choice.bookie).connect()
        limits = last - first + 1, self._context.config.read_batch_bytes_max
        return connection is not None and connection.send_batch_read(
            self._ledger_id, first, limits, on_response
        )
