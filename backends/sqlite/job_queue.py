"""The queue of reads and writes for SQLite's thread, which takes all that wait at once.

Waiting reads share a snapshot, and waiting writes a commit, which is a sync of the disk: a process
that opens a thousand streams at once needs a few dozen syncs instead of thousands. The outcomes of
a group return to the event loop by one call. Each job keeps its own deadline: while other processes
hold the file, late jobs fail and leave the group, and the others continue to wait.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...core.protocol.errors import MetadataUnavailableError
from .database import BusyError, Database, ReadBody, WriteBody

_GROUP_MAX = 128
_PAUSE_S = 0.005


class Job:
    """A queued or running read or write. ``deadline`` is in ``time.monotonic()`` seconds."""

    __slots__ = ("answer", "body", "deadline", "is_withdrawn")

    def __init__(
        self, body: Callable[[Any], object], deadline: float, answer: "asyncio.Future[object]"
    ) -> None:
        self.body = body
        self.deadline = deadline
        self.answer = answer
        """The future that gets what the body returned or raised."""
        self.is_withdrawn = False
        """True if the job was withdrawn before it began."""


class JobQueue:
    """The queued jobs of one handle, for the event loop in which it is created.

    Its length is limited by its callers, each of which waits for its job or withdraws it.
    """

    def __init__(self, database: Database, thread: ThreadPoolExecutor) -> None:
        """``thread`` has one worker, which alone uses the database."""
        self._database = database
        self._thread = thread
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._reads: deque[Job] = deque()
        self._writes: deque[Job] = deque()
        self._is_running = False  # the thread will look at both queues again

    def read(self, body: ReadBody, deadline: float) -> Job:
        """Queue a read, which sees every write that was acknowledged before this call."""
        return self._submit(self._reads, body, deadline)

    def write(self, body: WriteBody, deadline: float) -> Job:
        """Queue a write."""
        return self._submit(self._writes, body, deadline)

    def withdraw(self, job: Job) -> None:
        """Remove a job from the queue, unless it has already begun."""
        with self._lock:
            for waiting in (self._reads, self._writes):
                if job in waiting:
                    waiting.remove(job)
                    job.is_withdrawn = True

    def give_up(self, job: Job) -> None:
        """Withdraw a job, and let its caller raise TimeoutError."""
        self.withdraw(job)
        if not job.answer.done():
            job.answer.set_exception(TimeoutError())

    def _submit(self, waiting: deque[Job], body: Callable[[Any], object], deadline: float) -> Job:
        job = Job(body, deadline, self._loop.create_future())
        with self._lock:
            waiting.append(job)
            is_running, self._is_running = self._is_running, True
        if not is_running:
            self._thread.submit(self._run)
        return job

    # --- in the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._lock:
                reads, writes = _first_of(self._reads), _first_of(self._writes)
                self._is_running = bool(reads or writes)
            if not reads and not writes:
                return
            self._do(reads, self._database.read)
            self._do(writes, self._database.write)

    def _do(
        self, jobs: list[Job], work: Callable[[Sequence[Callable[[Any], object]], float], list[Any]]
    ) -> None:
        """Carry out a group. It waits for the write lock until its earliest deadline."""
        while jobs := self._without_late(jobs):
            try:
                outcomes = work([job.body for job in jobs], min(job.deadline for job in jobs))
            except BusyError:
                time.sleep(_PAUSE_S)  # those that are not late continue to wait
                continue
            except BaseException as error:
                outcomes = [error] * len(jobs)
            self._loop.call_soon_threadsafe(_settle, jobs, outcomes)
            return

    def _without_late(self, jobs: list[Job]) -> list[Job]:
        """Fail the jobs whose deadline has passed; return the others."""
        now = time.monotonic()
        late = [job for job in jobs if job.deadline <= now]
        if not late:
            return jobs
        error = MetadataUnavailableError(
            "the metadata file was locked by other writers until the deadline"
        )
        self._loop.call_soon_threadsafe(_settle, late, [error] * len(late))
        return [job for job in jobs if job.deadline > now]


def _first_of(waiting: deque[Job]) -> list[Job]:
    return [waiting.popleft() for _ in range(min(len(waiting), _GROUP_MAX))]


def _settle(jobs: Sequence[Job], outcomes: Sequence[object]) -> None:
    """Give each caller that still waits the outcome of its job."""
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.answer.done():
            continue  # its caller was cancelled or gave up
        if isinstance(outcome, BaseException):
            job.answer.set_exception(outcome)
        else:
            job.answer.set_result(outcome)
