"""The next file of the write log, which is prepared while groups still go to the current one.

A file begins with the state of all ledgers, which may be hundreds of megabytes, and adds must not
wait until that is written. So it is written beside the current file, in slices that yield to
commits, and what changes meanwhile is written after it: the state records of the groups that became
durable in the current file, and the state of the ledgers that got entries there. Each round writes
the changes of the round before, until few are left. These follow when the log continues in the new
file and no group is in flight. Only then does the file get its header and its name, so no start
takes a file that was being prepared for one that was used.

Every record can be applied any number of times (ledger_records.py), so a change that both the
snapshot and a later record contain does no harm.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from ...protocol.bookie_id import BookieId
from ...protocol.errors import DiskFullError
from ...runtime.tasks import Tasks, wait_until_done
from ..background_pace import BackgroundPace
from ..ledger_records import LedgerRecord
from .commit_group import CommitGroup
from .file_set import FileSet
from .log_file import LogFile
from .log_format import LOG_KIND, FileHeader, encode_record

_GROUP_BYTES = 128 << 10
"""A commit waits for the group that is being written."""
_RECORDS_PER_SLICE = 500
"""So many records are encoded in about a millisecond."""
_CHANGES_MAX = 1_000
"""Changes that may be left for the moment in which no group can be written."""
_ROUNDS_MAX = 8
"""The rounds become shorter, unless commits are faster than the rounds."""


class NextLog:
    """Writes one new file: ``prepare`` begins it, and ``finish`` completes it.

    ``snapshot`` yields the state records that the file begins with.
    """

    def __init__(
        self,
        files: FileSet,
        bookie: BookieId,
        number: int,
        generation: int,
        *,
        reserved_bytes: int,
        snapshot: Callable[[], Iterator[bytes]],
        pace: BackgroundPace,
    ) -> None:
        self.number = number
        self._files = files
        self._bookie = bookie
        self._generation = generation
        self._reserved_bytes = reserved_bytes
        self._snapshot = snapshot
        self._pace = pace
        self._tasks = Tasks(on_failure=self._failed)
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._is_awaited = False
        self._file: LogFile | None = None
        self._records: list[bytes] = []
        self._ledgers: dict[LedgerRecord, None] = {}

    def prepare(self, on_end: Callable[[], None] = lambda: None) -> None:
        """Begins to write the file; ``on_end`` is called afterwards, also after a failure."""
        self._task = self._tasks.spawn(self._prepare(), "next log")
        self._task.add_done_callback(lambda _: on_end())

    @property
    def is_prepared(self) -> bool:
        """True if only few changes are left, or the preparation has failed."""
        return self._task is not None and self._task.done()

    def note_group(self, group: CommitGroup) -> None:
        """Notes what changed with a group that is durable in the current file."""
        self._records += group.states
        for ledger, _, _, _, _ in group.adds:
            self._ledgers[ledger] = None

    def note_states(self, records: Iterable[bytes]) -> None:
        """Notes state records that are durable in the current file."""
        self._records += records

    async def prepared(self) -> None:
        """Waits until the file is prepared, which no longer yields to commits."""
        assert self._task is not None
        self._is_awaited = True
        await wait_until_done(self._task)

    async def finish(self, previous: LogFile | None) -> LogFile:
        """Makes the file, its header and its name durable; no group may be in flight.

        The header names ``previous`` and its end. Raises DiskFullError, DiskFailedError.
        """
        await self.prepared()
        if self._failure is not None:
            raise self._failure
        file = self._file
        assert file is not None
        await self._write_changes(file)
        await file.file.sync()
        end = (0, 0, 0) if previous is None else (previous.number, previous.end, previous.last_crc)
        header = FileHeader(LOG_KIND, self.number, self._generation, *end, self._bookie)
        await file.write_header(header)
        await file.file.close()
        file.file = await self._files.name(LOG_KIND, self.number)
        return file

    async def discard(self) -> None:
        """Closes and removes the file, which frees its space. Nothing may be writing to it."""
        if self._file is not None:
            await self._file.file.close()
        await self._files.remove_unnamed(LOG_KIND)
        await self._files.remove(LOG_KIND, [self.number])

    def cancel(self) -> None:
        """Stops writing. The file is never used."""
        if self._task is not None:
            self._task.cancel()

    async def _prepare(self) -> None:
        file = self._file = await self._create()
        await self._write(file, self._snapshot())
        for _ in range(_ROUNDS_MAX):
            if len(self._records) + len(self._ledgers) <= _CHANGES_MAX:
                break
            await self._write_changes(file)

    async def _create(self) -> LogFile:
        """Creates the file with reserved space, or without it on a nearly full disk."""
        reserved_bytes = self._reserved_bytes
        try:
            file = await self._files.create_unnamed(LOG_KIND, self.number, reserved_bytes)
        except DiskFullError:
            await self._files.remove_unnamed(LOG_KIND)
            reserved_bytes = 0
            file = await self._files.create_unnamed(LOG_KIND, self.number, reserved_bytes)
        return LogFile(file, self.number, self._generation, reserved_bytes=reserved_bytes)

    async def _write_changes(self, file: LogFile) -> None:
        """Writes what was noted: the ledgers first, because a record may delete one of them."""
        records, self._records = self._records, []
        ledgers, self._ledgers = self._ledgers, {}
        await self._write(file, (ledger.encode() for ledger in ledgers))
        await self._write(file, records)

    async def _write(self, file: LogFile, records: Iterable[bytes]) -> None:
        now_s = asyncio.get_running_loop().time
        buffers: list[bytes] = []
        size, began_s = 0, now_s()
        for count, record in enumerate(records, start=1):
            buffers.append(encode_record(record, is_state=True))
            size += len(buffers[-1])
            if size >= _GROUP_BYTES:
                # Once adds wait for the file, a single sync at its end is quicker.
                await file.append(buffers, len(buffers), is_durable=not self._is_awaited)
                buffers, size = [], 0
            elif count % _RECORDS_PER_SLICE:
                continue
            await asyncio.sleep(self._rest_s(now_s() - began_s, now_s()))
            began_s = now_s()
        if buffers:
            await file.append(buffers, len(buffers), is_durable=not self._is_awaited)

    def _rest_s(self, worked_s: float, now_s: float) -> float:
        return 0.0 if self._is_awaited else self._pace.rest_s(worked_s, now_s)

    def _failed(self, error: BaseException) -> None:
        self._failure = error
