"""Publishes snapshots to the pages that are open: a whole one at first, then merge patches.

A page that is slow gets the difference to the snapshot that it has, so nothing is queued for it.
Samples are taken only while a page follows.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

from ....core.protocol.errors import RhumblineError
from ....core.runtime.event_log import EventLog
from ....core.runtime.tasks import Tasks
from .merge_patch import merge_patch, without_nulls

_LOG = EventLog(__name__)

FOLLOWERS_MAX = 256
"""Maximum number of pages that follow at once."""

FeedEvent = tuple[str, dict[str, Any]]
"""``snapshot`` with a whole snapshot, or ``patch``, or ``unavailable`` with an error."""


class SnapshotFeed:
    """Takes snapshots by ``take`` at an interval, from ``start`` to ``aclose``."""

    def __init__(self, take: Callable[[], Awaitable[dict[str, Any]]], interval_s: float) -> None:
        self._take = take
        self._interval_s = interval_s
        self._event: FeedEvent | None = None
        self._version = 0
        self._followers = 0
        self._is_closed = False
        self._changed = asyncio.Condition()
        self._tasks = Tasks()

    @property
    def follower_count(self) -> int:
        """Number of pages that follow now."""
        return self._followers

    def start(self) -> None:
        """Begin to take snapshots."""
        self._tasks.spawn(self._run(), "take snapshots")

    async def aclose(self) -> None:
        """End all followers and stop. Safe to repeat."""
        self._is_closed = True
        async with self._changed:
            self._changed.notify_all()
        await self._tasks.aclose()

    async def follow(self) -> AsyncIterator[FeedEvent]:
        """Yield the present snapshot and then its changes, until ``aclose``.

        A page that is alone waits for the next snapshot: the last one may be hours old.
        """
        version = 0 if self._followers else self._version
        self._followers += 1
        async with self._changed:
            self._changed.notify_all()
        sent: dict[str, Any] | None = None
        try:
            while True:
                async with self._changed:
                    await self._changed.wait_for(partial(self._has_newer, version))
                if self._is_closed or self._event is None:
                    return
                version, (kind, document) = self._version, self._event
                if kind != "snapshot":
                    yield kind, document
                elif sent is None:
                    sent = document
                    yield kind, document
                else:
                    patch = merge_patch(sent, document)
                    sent = document
                    yield "patch", patch
        finally:
            self._followers -= 1

    def _has_newer(self, version: int) -> bool:
        return self._is_closed or self._version > version

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._followers > 0)
            began = loop.time()
            await self._take_one()
            async with self._changed:
                self._changed.notify_all()
            await asyncio.sleep(max(0.0, began + self._interval_s - loop.time()))

    async def _take_one(self) -> None:
        try:
            self._event = "snapshot", without_nulls(await self._take())
        except RhumblineError as error:
            if self._event is None or self._event[0] == "snapshot":
                _LOG.warning("snapshot not taken", error=error)
            self._event = "unavailable", {"error": str(error), "code": error.code}
        self._version += 1
