"""Access to the copies on a single bookie, for repair: list entries, store copies.

Copies are stored by recovery adds. A fenced bookie accepts them, and they do not fence it (bug
B25), so the ledger's writer is not affected.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from ...protocol.bookie_id import BookieId
from ...protocol.errors import NoSuchLedgerError, RhumblineError
from ...protocol.ledger_metadata import LedgerMetadata
from ...wire import availability, v3
from ...wire import bookkeeper_pb2 as pb
from ...wire.availability import Availability
from ...wire.entry import Entry, EntryDigest, encode_entry, master_key
from ..connection.v3_responses import error_in
from ..context import LedgerContext

Parse = Callable[[pb.Response], None]


class ReplicaCopies:
    """The copies on single bookies. Obtained from ``LedgerClient.copies``."""

    def __init__(self, context: LedgerContext) -> None:
        self._context = context

    async def list_entries(self, bookie: BookieId, ledger_id: int) -> Availability:
        """Returns the entries that ``bookie`` has, which are none if it never had the ledger.

        Raises UnavailableError if it cannot be decided now, and ProtocolError.
        """
        found: list[bytes] = []

        def parse(response: pb.Response) -> None:
            found.append(bytes(response.get_list_of_entries_response.availability))

        try:
            await self._send_all(bookie, [v3.list_entries_request(0, ledger_id)], parse)
        except NoSuchLedgerError:
            return Availability([])
        return availability.decode(found[0])

    async def disk_bytes(self, bookie: BookieId) -> int:
        """Returns the size of a bookie's disk. Raises UnavailableError, ProtocolError."""
        found: list[int] = []
        request = v3.bookie_info_request(0)
        await self._send_all(
            bookie,
            [request],
            lambda response: found.append(response.get_bookie_info_response.total_bytes),
        )
        return found[0]

    async def put(
        self, bookie: BookieId, metadata: LedgerMetadata, entries: Sequence[Entry]
    ) -> int:
        """Stores the entries on ``bookie`` as their writer encoded them, and returns their bytes.

        All of them are durable when it returns. Safe to repeat. Raises the error of the first entry
        that failed; others may be stored then. The caller bounds the bytes of one call.
        """
        digest = EntryDigest(metadata.digest_type, metadata.password)
        key = master_key(metadata.password)
        ledger_id = metadata.ledger_id
        requests = []
        size = 0
        for entry in entries:
            data = encode_entry(
                digest, ledger_id, entry.entry_id, entry.lac, entry.length, entry.payload
            )
            size += len(data)
            requests.append(
                v3.add_request(0, ledger_id, entry.entry_id, key, data, is_recovery=True)
            )
        await self._send_all(bookie, requests, lambda _: None)
        return size

    async def _send_all(
        self, bookie: BookieId, requests: Sequence[pb.Request], parse: Parse
    ) -> None:
        """Sends all requests and waits until all have completed."""
        link = self._context.pool.message_link(bookie)
        pending_count = len(requests)
        errors: list[RhumblineError] = []
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def on_response(error: RhumblineError | None, response: pb.Response | None) -> None:
            nonlocal pending_count
            pending_count -= 1
            error = error_in(error, response)
            if error is not None:
                errors.append(error)
            elif not errors:
                assert response is not None
                parse(response)
            if not pending_count and not done.done():
                done.set_result(None)

        for request in requests:
            connection = link.connect()
            if connection is None or not connection.send_message(request, on_response):
                loop.call_soon(partial(on_response, link.last_error, None))
        if requests:
            await done
        if errors:
            raise errors[0]
