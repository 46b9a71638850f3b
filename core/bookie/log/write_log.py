"""The write log: every entry once, in commit groups, in order of arrival within each ledger.

Records that arrive while one group is being written go into the next group, so the duration of a
sync determines the group size and no add waits for a timer. Ledgers that get much do not delay the
others (group_queue.py). Invariants (rules BKE-9, BKE-14):

1. one group is in flight at a time, so an incomplete group is always the last one of its file;
2. a group's ``on_durable`` runs only after its bytes and all bytes before them are durable;
3. after a failed write or sync, nothing is written or acknowledged until the log is opened again
   (the operating system drops dirty pages on error);
4. a file begins with a snapshot of all state, and everything that changed since, which are durable
   before it gets its header and its name (next_log.py). Then a seal record in the previous file
   names the new file, and only then is it used. So a file with a damaged header was never used if
   no seal names it, and is damaged if one does.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

from ...protocol.bookie_id import BookieId
from ...protocol.errors import ClosedError, DiskFullError, InvariantBrokenError, RhumblineError
from ...runtime.tasks import Tasks, wait_until_done
from ..background_pace import BackgroundPace
from ..config import BookieConfig
from ..index.index_file import DataFile
from ..ledger_records import seal_record
from .commit_group import CommitGroup, OnDurable
from .end_marker import EndMarker, LogEnd
from .file_set import FileSet
from .group_queue import CONTENDED_BYTES_MAX, GroupQueue
from .log_file import LogFile
from .log_format import GROUP_HEADER_BYTES, LOG_KIND, OFFSET_BITS, encode_record
from .next_log import NextLog

_LAZY_WRITE_S = 0.05
_SNAPSHOT_FACTOR = 16  # a file is at least this many times as long as its snapshot
_OVERRUN = 0.125
"""By this share of its size a file may grow further while the next one is being prepared. It still
fits the space that is reserved to rewrite a file (rule BKE-20)."""


class LogOwner(Protocol):
    """The owner of the log: provides numbers and state, and handles events."""

    def next_file_number(self) -> int:
        """Return a file number above all numbers that this bookie has used."""
        ...

    def next_generation(self) -> int:
        """Return 64 random bits."""
        ...

    def snapshot(self) -> Iterator[bytes]:
        """Yield the state records for the beginning of a new file."""
        ...

    def group_durable(self, group: CommitGroup, position: int, body: bytes) -> None:
        """Called when the group's body is durable at ``position``."""
        ...

    def group_refused(self, group: CommitGroup, error: RhumblineError) -> None:
        """Called when writing the group failed; a replay may or may not find it."""
        ...

    def adds_refused(self, group: CommitGroup, error: RhumblineError) -> None:
        """Called when only the state records of the group were written: they are durable."""
        ...

    async def lend_space(self) -> bool:
        """Free space for state records; returns False if none can be freed."""
        ...

    def file_sealed(self, data_file: DataFile) -> None:
        """Called when the log continues in another file."""
        ...

    def log_failed(self, error: RhumblineError) -> None:
        """Called when the log has failed for good."""
        ...


class WriteLog:
    """Writes commit groups to the current log file; ``group`` is open for appends."""

    def __init__(
        self, files: FileSet, config: BookieConfig, bookie: BookieId, owner: LogOwner
    ) -> None:
        self._config = config
        self._bookie = bookie
        self._owner = owner
        self._tasks = Tasks(on_failure=self._writer_failed)
        self._files = files
        self._marker = EndMarker(files.disk, bookie)
        self._writer: asyncio.Task[Any] | None = None
        self._queue = GroupQueue()
        self._current: LogFile | None = None
        self._next: NextLog | None = None
        self._roll_at = 0
        self._roll_at_least = 0
        self._entry_count = 0
        self._carried: list[bytes] = []
        """State records of refused groups, which are written before the next group."""
        self.group = CommitGroup()
        self._is_kicked = False  # the open group must be written as soon as possible
        self._timer: asyncio.TimerHandle | None = None
        self.failure: RhumblineError | None = None
        self.pace = BackgroundPace()
        self.sync_count = 0
        self.written_bytes = 0

    @property
    def current(self) -> LogFile:
        """The file that is being written."""
        assert self._current is not None, "the log is open"
        return self._current

    @property
    def number(self) -> int:
        """The number of the file that is being written."""
        return self.current.number

    @property
    def durable_end(self) -> int:
        """The position up to which the log is durable; 0 before it is open."""
        file = self._current
        return 0 if file is None else file.number << OFFSET_BITS | file.end

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait for the disk."""
        return self._queue.bytes + self.group.body_bytes

    async def open(self, previous: LogFile | None) -> None:
        """Begins a new file after ``previous``. Raises DiskFullError, DiskFailedError."""
        await self._marker.open()
        next_log = self._create_next()
        next_log.prepare()
        await self._continue_in(next_log, previous)

    def kick(self) -> None:
        """Starts writing the pending records. Cheap to repeat."""
        self._is_kicked = True
        self._start_writer()

    def _start_writer(self) -> None:
        if self._writer is None and self.failure is None:
            self._writer = self._tasks.spawn(self._write_all(), "write log")

    def open_group(self) -> CommitGroup:
        """Return the group for the next append: the open group, or a new one if that is full."""
        group = self.group
        count_max = self._config.group_count_max
        if group.body_bytes >= self.group_bytes_max or group.count >= count_max:
            return self.next_group()
        return group

    @property
    def group_bytes_max(self) -> int:
        """The size at which the open group is closed."""
        limit = self._config.group_bytes_max
        return min(limit, CONTENDED_BYTES_MAX) if self._queue.is_contended else limit

    def next_group(self) -> CommitGroup:
        """Closes the open group for appends and opens another."""
        self._queue.append(self.group)
        self.group = CommitGroup()
        return self.group

    def append_state(
        self, record: bytes, on_durable: OnDurable | None = None, *, is_urgent: bool = True
    ) -> None:
        """Journals a state record; ``on_durable`` is called with None, or with the failure.

        A record that is not urgent is written with the next records, or alone after 50 ms.
        """
        if self.failure is not None:
            if on_durable is not None:
                on_durable(self.failure)
            return
        group = self.open_group()
        group.append_state(record, is_urgent=is_urgent)
        if on_durable is not None:
            group.callbacks.append(on_durable)
        if is_urgent:
            self.kick()
        elif self._writer is None:
            self._kick_later()

    def _kick_later(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_LAZY_WRITE_S, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self.group.count:
            self.kick()

    def roll_next(self) -> None:
        """Makes the next group begin a new file, if there is space for it."""
        self._roll_at = 0

    @property
    def sealable_bytes(self) -> int:
        """The shortest length at which sealing the current file frees more than it costs."""
        return max(self._roll_at_least, self._config.log_file_bytes // _SNAPSHOT_FACTOR)

    async def aclose(self) -> None:
        """Writes the pending records and stops. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()
            self._on_timer()
        while self.failure is None:
            if self._writer is not None:
                await wait_until_done(self._writer)
            elif self._next is not None:
                await self._next.prepared()  # the writer then continues in it
            else:
                break
        await self._tasks.aclose()
        if self.failure is None:
            if self._current is not None:
                await self._current.cut()  # frees the reserved space
                await self._write_marker(self._current, is_durable=True)
            self.failure = ClosedError("the write log is closed")
        await self._marker.aclose()

    # --- the writer -----------------------------------------------------------------------------

    async def _write_all(self) -> None:
        while self._queue or self._is_next_ready or (self._is_kicked and self.group.count):
            if self._is_next_ready:
                await self._roll()
                continue
            if self._queue.needs_group and self._is_kicked and self.group.count:
                self._is_kicked = False
                self.next_group()
            await self._write(self._queue.take())
        self._writer = None
        if self.group.count:
            self._kick_later()

    async def _write(self, group: CommitGroup) -> None:
        body = b"".join(group.buffers)
        assert len(body) == group.body_bytes
        now_s = asyncio.get_running_loop().time
        try:
            try:
                if self._is_full():
                    if self._next is None:
                        self._next = self._create_next()
                        self._next.prepare(self._start_writer)
                    if self._is_full(overrun=_OVERRUN):
                        await self._roll()
                await self._write_carried()
                began_s = now_s()
                start = await self.current.append([body], group.count, is_durable=True)
                self.pace.note_commit(now_s() - began_s, now_s(), len(body))
                await self._write_marker(self.current)
            except DiskFullError as error:
                await self.current.cut()
                self._carried += group.states
                if await self._write_states_alone(group):
                    self._owner.adds_refused(group, error)
                else:
                    self._owner.group_refused(group, error)
                return
        except BaseException:
            self._queue.put_back(group)
            raise
        self.sync_count += 1
        self._entry_count += len(group.adds)
        self.written_bytes += GROUP_HEADER_BYTES + len(body)
        if self._next is not None:
            self._next.note_group(group)
        self._owner.group_durable(group, self.number << OFFSET_BITS | start, body)

    async def _write_states_alone(self, group: CommitGroup) -> bool:
        """Writes the state records of a group that did not fit, in space that the owner lends.

        Returns False if there are none, or still no space. A bookie that cannot record a fence or
        the deletion of a ledger would stay full for ever (rule BKE-29).
        """
        while group.states and await self._owner.lend_space():
            try:
                await self._write_carried()
                await self._write_marker(self.current)
            except DiskFullError:
                await self.current.cut()
            else:
                return True
        return False

    def _is_full(self, *, overrun: float = 0.0) -> bool:
        """Return whether the file has reached its size, or its rows in memory their number.

        With ``overrun`` both limits are higher by that share.
        """
        limit = 1 + overrun
        end, rows = self.current.end / limit, self._entry_count / limit
        if end >= self._roll_at:
            return True
        return rows >= self._config.index_rows_max and end >= self._roll_at_least

    async def _write_marker(self, file: LogFile, *, is_durable: bool = False) -> None:
        """Records outside the log how far it is durable (end_marker.py)."""
        log_end = LogEnd(file.number, file.end, file.generation)
        await self._marker.write(log_end, is_durable=is_durable)

    async def _write_carried(self) -> None:
        if self._carried:
            buffers = [encode_record(record, is_state=True) for record in self._carried]
            await self.current.append(buffers, len(buffers), is_durable=True)
            if self._next is not None:
                self._next.note_states(self._carried)
            self._carried.clear()

    def _create_next(self) -> NextLog:
        owner = self._owner
        return NextLog(
            self._files,
            self._bookie,
            owner.next_file_number(),
            owner.next_generation(),
            reserved_bytes=self._config.log_file_bytes,
            snapshot=owner.snapshot,
            pace=self.pace,
        )

    @property
    def _is_next_ready(self) -> bool:
        return self._next is not None and self._next.is_prepared

    async def _roll(self) -> None:
        """Continues in the next file, or for a while in this one if the disk is full."""
        sealed, next_log = self.current, self._next
        assert next_log is not None
        data_file = DataFile(LOG_KIND, sealed.number, sealed.generation, sealed.end)
        try:
            await self._continue_in(next_log, sealed)
        except DiskFullError:
            self._next = None
            self._roll_at = sealed.end + max(self._config.log_file_bytes // 16, 1)
            self._roll_at_least = self._roll_at
            return
        self._next = None
        self._owner.file_sealed(data_file)

    async def _continue_in(self, next_log: NextLog, previous: LogFile | None) -> None:
        """Completes the new file, seals the old one with a record that names it, then uses it."""
        try:
            new = await next_log.finish(previous)
            await self._write_marker(new, is_durable=True)
            if previous is not None:
                await previous.cut()  # removes a torn group and reserved space
                record = encode_record(seal_record(new.number), is_state=True)
                await previous.append([record], 1, is_durable=True)
        except DiskFullError:
            # The new file must be removed before another byte goes into the old one, because its
            # header says that the old file ends here.
            await next_log.discard()
            if previous is not None:
                await self._write_marker(previous)
            raise
        finally:
            next_log.cancel()  # unless it has ended
        self._current = new
        self._entry_count = 0
        self._roll_at_least = new.end * _SNAPSHOT_FACTOR
        self._roll_at = max(self._config.log_file_bytes, self._roll_at_least)
        self.written_bytes += new.end

    def _writer_failed(self, error: BaseException) -> None:
        """Fails the log permanently: no pending record is ever acknowledged."""
        if isinstance(error, RhumblineError):
            failure = error
        else:
            failure = InvariantBrokenError(f"the log writer failed: {error!r}")
            failure.__cause__ = error
        self.failure = failure
        self._writer = None
        if self._next is not None:
            self._next.cancel()
        groups = [*self._queue.take_all(), self.group]
        self.group = CommitGroup()
        for group in groups:
            self._owner.group_refused(group, failure)
        self._owner.log_failed(failure)
