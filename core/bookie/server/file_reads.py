"""Reads of entries in files, which the connection's read queue runs."""

import asyncio
import sys
from typing import TYPE_CHECKING

from ...protocol.errors import RhumblineError
from ..index.entry_index import Location
from .requests import BatchRead, EntryRead

if TYPE_CHECKING:
    from .entry_service import EntryService

_BATCH_MS_MAX = 50
_YIELDING_BATCH_MS_MAX = 5


class EntryReading:
    """A read of one entry in a file. Without ``location`` the index is read from disk first."""

    __slots__ = ("directory", "entry_id", "is_urgent", "location", "op", "service")

    def __init__(
        self,
        service: "EntryService",
        op: EntryRead,
        entry_id: int,
        location: Location | None,
    ) -> None:
        self.service = service
        self.op = op
        self.entry_id = entry_id
        self.location = location
        self.directory = "" if location is None else service.storage.directory_of(location)
        self.is_urgent = op.is_fencing

    async def run(self) -> None:
        """See requests.FileRead."""
        op, storage, location = self.op, self.service.storage, self.location
        try:
            if location is None:
                location = await self.service.locate_for(
                    self, op.connection, op.ledger_id, self.entry_id
                )
            if location is None:
                return
            entry = storage.cached(location)
            if entry is None:
                entry = await storage.read(op.ledger_id, self.entry_id, location)
            self.service.respond_entry(op, entry)
        except RhumblineError as error:
            self.service.respond(op, self.service.weaken_denial(op, error))


class BatchReading:
    """A read of consecutive entries in one directory.

    It ends at a missing entry, one in another directory, a full response, or ``_BATCH_MS_MAX``.
    Without the time limit, a client with a shorter timeout would close the connection and repeat
    the same request forever. The limit is shorter while reads yield to commits (rule BKE-34).
    """

    __slots__ = ("directory", "is_urgent", "op", "service")

    def __init__(self, service: "EntryService", op: BatchRead, *, is_urgent: bool = False) -> None:
        self.service = service
        self.op = op
        self.directory = ""
        self.is_urgent = is_urgent

    async def run(self) -> None:
        """See requests.FileRead."""
        op = self.op
        entries: list[bytes | memoryview] = []
        count_left = op.count_max if op.count_max > 0 else sys.maxsize
        room = op.bytes_max
        now_s = asyncio.get_running_loop().time
        is_yielding = self.service.read_slots.pace.share(now_s()) < 1
        end_s = now_s() + (_YIELDING_BATCH_MS_MAX if is_yielding else _BATCH_MS_MAX) / 1000
        read = self.service.storage.read_run
        try:
            if (
                await self.service.locate_for(self, op.connection, op.ledger_id, op.entry_id)
                is None
            ):
                return
            while not entries or (count_left > 0 and now_s() < end_s):
                next_id = op.entry_id + len(entries)
                following_in = self.directory if entries else None
                run = await read(op.ledger_id, next_id, count_left, room, following_in=following_in)
                if not run:
                    break
                count_left -= len(run)
                for entry in run:
                    room -= op.entry_bytes + len(entry)
                    if entries and room < 0:
                        break
                    entries.append(entry)
        except RhumblineError as error:
            if not entries:
                self.service.respond(op, self.service.weaken_denial(op, error))
                return
        self.service.meter.done(op.kind, op.began)
        op.connection.send_parts(op.batch_response(entries))
