"""The queue of writes for SQLite's thread; writes that wait while it is busy share one commit.

A commit is a sync of the disk. With shared commits a process that opens a thousand streams at once
needs a few dozen syncs instead of thousands. Each write keeps its own deadline: while other
processes hold the file, late writes fail and leave the group, and the others continue to wait.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from ...core.protocol.errors import MetadataUnavailableError
from .database import Body, BusyError, Database

_GROUP_WRITES_MAX = 128
_PAUSE_S = 0.005


class Write:
    """A queued or running write."""

    __slots__ = ("body", "deadline", "outcome")

    def __init__(self, body: Body, deadline: float) -> None:
        self.body = body
        self.deadline = deadline
        self.outcome: Future[object] = Future()


class WriteQueue:
    """The queued writes of one handle, in order."""

    def __init__(self, database: Database, thread: ThreadPoolExecutor) -> None:
        self._database = database
        self._thread = thread
        self._lock = threading.Lock()
        self._waiting: deque[Write] = deque()
        self._is_scheduled = False  # a job of the thread will process the queue

    def submit(self, body: Body, deadline: float) -> Write:
        """Queue a write; the thread completes its ``outcome``."""
        write = Write(body, deadline)
        with self._lock:
            self._waiting.append(write)
            is_scheduled, self._is_scheduled = self._is_scheduled, True
        if not is_scheduled:
            self._thread.submit(self._run_group)
        return write

    def withdraw(self, write: Write) -> bool:
        """Remove a write from the queue; False if it has already begun."""
        with self._lock:
            if write not in self._waiting:
                return False
            self._waiting.remove(write)
            return True

    def _run_group(self) -> None:
        """Run one transaction in the thread; reads queued there run before the next one."""
        with self._lock:
            count = min(len(self._waiting), _GROUP_WRITES_MAX)
            writes = [self._waiting.popleft() for _ in range(count)]
            self._is_scheduled = bool(self._waiting)
            if self._is_scheduled:
                self._thread.submit(self._run_group)
        while writes := _fail_late(writes):
            try:
                outcomes = self._write(writes)
            except BusyError:
                time.sleep(_PAUSE_S)  # the writes that are not late continue to wait
            except BaseException as error:
                for write in writes:
                    write.outcome.set_exception(error)
                return
            else:
                for write, outcome in zip(writes, outcomes, strict=True):
                    if isinstance(outcome, Exception):
                        write.outcome.set_exception(outcome)
                    else:
                        write.outcome.set_result(outcome)
                return

    def _write(self, writes: Sequence[Write]) -> list[object]:
        """Commit once; wait for the write lock until the earliest deadline of the group."""
        deadline = min(write.deadline for write in writes)
        return self._database.write([write.body for write in writes], deadline)


def _fail_late(writes: Sequence[Write]) -> list[Write]:
    """Fail the writes whose deadline has passed; return the others."""
    now = time.monotonic()
    for write in writes:
        if write.deadline <= now:
            late = MetadataUnavailableError(
                "the metadata file was locked by other writers until the deadline"
            )
            write.outcome.set_exception(late)
    return [write for write in writes if write.deadline > now]
