"""Ends the read calls to a silent proxy when other proxies say that it is lost.

A read call has a rhythm: entries, and heartbeats while there are none. One ``ReadRhythm`` for each
proxy learns it from all read calls of the client, so that a busy proxy is doubted after 0.4 s of
silence, and one that sends only heartbeats after somewhat more than a heartbeat. A doubt costs one
call to another proxy, whose probes know more than the client (rules PRX-17, PRX-32). Reading itself
only notes a time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from ...core.runtime.tasks import Tasks

HEARTBEAT_MS = 1_000
"""Interval of the heartbeats that a reader asks for."""
_TICK_S = 0.1
_DOUBT_S_MIN = 0.4
_DOUBT_S_MAX = HEARTBEAT_MS / 1000 + 0.25
_GAPS_PER_DOUBT = 4.0
"""A proxy is doubted when it was silent for this many times its longest recent gap."""
_GAP_DECAY = 0.9
"""A gap that is not repeated counts for less with each further response."""
_PAUSE_S_MAX = 4.0

FindIfLost = Callable[[str], Awaitable[bool]]
"""Returns whether another proxy says that the one at an address is lost."""


class WaitingRead(Protocol):
    """A read call of the client."""

    @property
    def waiting_since_s(self) -> float | None:
        """Time of the loop since which the call waits for a response; None: the reader is busy."""
        ...

    def proxy_lost(self) -> None:
        """End the call, because its proxy is lost."""
        ...


class ReadRhythm:
    """The responses of one proxy to all read calls of this client. Times are of the loop."""

    __slots__ = ("_gap_s", "check_after_s", "responded_at_s", "pause_s", "reads")

    def __init__(self, now_s: float) -> None:
        self.responded_at_s = now_s
        self.reads: dict[WaitingRead, None] = {}
        self.check_after_s = 0.0
        """Earliest time of the next check."""
        self.pause_s = _DOUBT_S_MIN
        """Pause until the check after that; doubled while the proxy is not lost."""
        self._gap_s = HEARTBEAT_MS / 1000

    def on_response(self, now_s: float) -> None:
        """Note a response of the proxy."""
        self._gap_s = max(now_s - self.responded_at_s, self._gap_s * _GAP_DECAY)
        self.responded_at_s = now_s
        self.pause_s = _DOUBT_S_MIN

    @property
    def doubt_s(self) -> float:
        """The silence after which the proxy is doubted."""
        return min(max(_DOUBT_S_MIN, _GAPS_PER_DOUBT * self._gap_s), _DOUBT_S_MAX)

    def is_doubtful(self, now_s: float) -> bool:
        """Return whether a call has waited for longer than usual, and a check is due."""
        limit_s = now_s - self.doubt_s
        return (
            self.responded_at_s <= limit_s
            and now_s >= self.check_after_s
            and any(
                read.waiting_since_s is not None and read.waiting_since_s <= limit_s
                for read in self.reads
            )
        )


class SilentReads:
    """The read calls of one client, by proxy. Its tasks end with ``tasks``."""

    def __init__(self, find_if_lost: FindIfLost, tasks: Tasks) -> None:
        self._find_if_lost = find_if_lost
        self._tasks = tasks
        self._rhythms: dict[str, ReadRhythm] = {}
        self._is_watching = False

    def add(self, address: str, read: WaitingRead) -> ReadRhythm:
        """Watch a call to the proxy at an address until ``discard``."""
        rhythm = self._rhythms.get(address)
        if rhythm is None:
            rhythm = self._rhythms[address] = ReadRhythm(asyncio.get_running_loop().time())
        rhythm.reads[read] = None
        if not self._is_watching and not self._tasks.is_closed:
            self._is_watching = True
            self._tasks.spawn(self._watch(), "silence of read proxies")
        return rhythm

    def discard(self, address: str, read: WaitingRead) -> None:
        """End the watch of a call. Safe to repeat."""
        rhythm = self._rhythms.get(address)
        if rhythm is not None:
            rhythm.reads.pop(read, None)
            if not rhythm.reads:
                del self._rhythms[address]

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._rhythms:
                await asyncio.sleep(_TICK_S)
                now_s = loop.time()
                for address, rhythm in self._rhythms.items():
                    if rhythm.is_doubtful(now_s):
                        rhythm.check_after_s = now_s + rhythm.pause_s
                        rhythm.pause_s = min(2 * rhythm.pause_s, _PAUSE_S_MAX)
                        self._tasks.spawn(self._check(address, rhythm), f"check of {address}")
        finally:
            self._is_watching = False

    async def _check(self, address: str, rhythm: ReadRhythm) -> None:
        """End the calls to a proxy if another proxy says that it is lost."""
        responded_at_s = rhythm.responded_at_s
        if await self._find_if_lost(address) and rhythm.responded_at_s == responded_at_s:
            for read in list(rhythm.reads):
                read.proxy_lost()
