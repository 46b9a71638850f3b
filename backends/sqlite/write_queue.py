"""Writes that wait for the thread: all that wait when it is free share one commit.

A commit is a sync of the disk, so a process that opens a thousand streams at once pays for a few
tens of them and not for thousands. Each keeps its own deadline: while others hold the file, those
that are late drop out of the group and the rest wait on.
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
    """A write on its way."""

    __slots__ = ("body", "deadline", "outcome")

    def __init__(self, body: Body, deadline: float) -> None:
        self.body = body
        self.deadline = deadline
        self.outcome: Future[object] = Future()


class WriteQueue:
    """The writes of one handle, in order."""

    def __init__(self, database: Database, thread: ThreadPoolExecutor) -> None:
        self._database = database
        self._thread = thread
        self._lock = threading.Lock()
        self._waiting: deque[Write] = deque()
        self._is_scheduled = False  # the thread will come and look

    def submit(self, body: Body, deadline: float) -> Write:
        """Queues a write; ``outcome`` hears of it from the thread."""
        write = Write(body, deadline)
        with self._lock:
            self._waiting.append(write)
            is_scheduled, self._is_scheduled = self._is_scheduled, True
        if not is_scheduled:
            self._thread.submit(self._run_group)
        return write

    def withdraw(self, write: Write) -> bool:
        """Takes a write back that was not begun. False: it was."""
        with self._lock:
            if write not in self._waiting:
                return False
            self._waiting.remove(write)
            return True

    def _run_group(self) -> None:
        """In the thread: one transaction, then the thread's next job, so that reads get a turn."""
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
                time.sleep(_PAUSE_S)  # who has time left waits on, without those who have not
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
        """One commit; it waits for its turn until the first of them is late."""
        deadline = min(write.deadline for write in writes)
        return self._database.write([write.body for write in writes], deadline)


def _fail_late(writes: Sequence[Write]) -> list[Write]:
    """Those whose deadline is to come; the others hear that theirs has passed."""
    now = time.monotonic()
    for write in writes:
        if write.deadline <= now:
            late = MetadataUnavailableError("the metadata file was too busy to begin in time")
            write.outcome.set_exception(late)
    return [write for write in writes if write.deadline > now]
