"""The queue of a connection's file reads, of which a limited number run concurrently.

A read that has ended holds a response until the client takes it. So no read starts while the client
does not read its responses, and the reads of all connections share a limited number of slots.

Reads of different directories have slots and readers of their own: a disk that does not respond
holds up the reads of its files only. While commits are delayed, a slot rests after each read (rule
BKE-34). An urgent read waits for no slot.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from ...runtime.tasks import Tasks
from ..background_pace import BackgroundPace
from .requests import FileRead

READERS_MAX = 16
"""Maximum number of concurrent file reads of one connection in one directory."""
URGENT_MAX = 16
"""Maximum number of concurrent urgent reads of one connection; further ones are not urgent."""


class ReadSlots:
    """The slots of each directory, which all connections share."""

    def __init__(self, count_max: int, pace: BackgroundPace) -> None:
        self.pace = pace
        self._count_max = count_max
        self._slots: dict[str, asyncio.Semaphore] = {}

    def of(self, directory: str) -> asyncio.Semaphore:
        """Return the slots of a directory."""
        found = self._slots.get(directory)
        if found is None:
            found = self._slots[directory] = asyncio.Semaphore(self._count_max)
        return found


class _Lane:
    """The reads of one connection in one directory."""

    __slots__ = ("reader_count", "slots", "waiting")

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self.slots = slots
        self.waiting: deque[FileRead] = deque()
        self.reader_count = 0


class ReadQueue:
    """Runs queued reads and calls ``on_read`` after each. The caller limits the queue's length."""

    def __init__(self, tasks: Tasks, slots: ReadSlots, on_read: Callable[[], None]) -> None:
        """``slots`` limits the concurrent reads of all queues that share it."""
        self._tasks = tasks
        self._slots = slots
        self._on_read = on_read
        self._lanes: dict[str, _Lane] = {}
        self._waiting_count = 0
        self._urgent_count = 0
        self._is_held = False

    def __len__(self) -> int:
        """Return the number of reads that have not started."""
        return self._waiting_count

    @property
    def is_active(self) -> bool:
        """True while a read runs, or waits for anything but the client."""
        return self._urgent_count > 0 or any(lane.reader_count for lane in self._lanes.values())

    def add(self, read: FileRead) -> None:
        """Queues a read, or runs it if it is urgent."""
        if read.is_urgent and self._may_run_urgent():
            self._urgent_count += 1
            self._tasks.spawn(self._run_urgent(read), "urgent read")
            return
        lane = self._lanes.get(read.directory)
        if lane is None:
            lane = self._lanes[read.directory] = _Lane(self._slots.of(read.directory))
        lane.waiting.append(read)
        self._waiting_count += 1
        self._start_readers(lane, 1)

    def hold(self) -> None:
        """Starts no further read until ``resume``."""
        self._is_held = True

    def resume(self) -> None:
        """Starts reads again."""
        self._is_held = False
        for lane in self._lanes.values():
            self._start_readers(lane, len(lane.waiting))

    def clear(self) -> None:
        """Drops the reads that have not started."""
        self._waiting_count = 0
        for lane in self._lanes.values():
            lane.waiting.clear()

    def _start_readers(self, lane: _Lane, count: int) -> None:
        if self._is_held or self._tasks.is_closed:
            return
        for _ in range(min(count, READERS_MAX - lane.reader_count)):
            lane.reader_count += 1
            self._tasks.spawn(self._run(lane), "read")

    def _may_run_urgent(self) -> bool:
        return self._urgent_count < URGENT_MAX and not self._is_held and not self._tasks.is_closed

    async def _run_urgent(self, read: FileRead) -> None:
        try:
            await read.run()
        finally:
            self._urgent_count -= 1
        self._on_read()

    async def _run(self, lane: _Lane) -> None:
        try:
            while lane.waiting and not self._is_held:
                async with lane.slots:
                    if lane.waiting and not self._is_held:
                        self._waiting_count -= 1
                        await self._run_in_slot(lane.waiting.popleft())
                self._on_read()
        finally:
            lane.reader_count -= 1

    async def _run_in_slot(self, read: FileRead) -> None:
        """Runs a read, and keeps the slot while it has to rest."""
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        await read.run()
        rest_s = self._slots.pace.rest_s(now_s() - began_s, now_s())
        if rest_s > 0:
            self._on_read()
            await asyncio.sleep(rest_s)
