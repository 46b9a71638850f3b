"""Publishes snapshots to the pages that are open: a whole one at first, then merge patches.

A page that is slow gets the difference to the snapshot that it has, so nothing is queued for it.
Samples are taken only while a page follows.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any

from ....core.protocol.errors import RhumblineError
from ....core.runtime.event_log import EventLog
from ....core.runtime.tasks import Tasks
from ..event_streams import ServerEvent
from .merge_patch import merge_patch, without_nulls

_LOG = EventLog(__name__)

FOLLOWERS_MAX = 256
"""Maximum number of pages that follow at once."""
TAKE_S_MAX = 20.0
"""Time after which a snapshot that is being taken is given up."""
SNAPSHOT, PATCH, UNAVAILABLE = "snapshot", "patch", "unavailable"
"""Kinds of events: a whole snapshot, a difference, or why there is no snapshot now."""


class SnapshotFeed:
    """Takes snapshots by ``take`` at an interval, from ``start`` to ``aclose``."""

    def __init__(self, take: Callable[[], Awaitable[dict[str, Any]]], interval_s: float) -> None:
        self._take = take
        self._interval_s = interval_s
        self._event: ServerEvent | None = None
        self._patch: tuple[ServerEvent, ServerEvent, ServerEvent] | None = None
        self._version = 0
        self._followers = 0
        self._is_closed = False
        self._changed = asyncio.Condition()
        self._tasks = Tasks()

    def start(self) -> None:
        """Begin to take snapshots."""
        self._tasks.spawn(self._run(), "take snapshots")

    async def aclose(self) -> None:
        """End all followers and stop. Safe to repeat."""
        self._is_closed = True
        async with self._changed:
            self._changed.notify_all()
        await self._tasks.aclose()

    async def follow(self) -> AsyncGenerator[ServerEvent]:
        """Yield the present snapshot and then its changes, until ``aclose``.

        A page that is alone waits for the next snapshot: the last one may be hours old.
        """
        version = 0 if self._followers else self._version
        self._followers += 1
        async with self._changed:
            self._changed.notify_all()
        sent: ServerEvent | None = None
        try:
            while True:
                async with self._changed:
                    await self._changed.wait_for(partial(self._has_newer, version))
                if self._is_closed or self._event is None:
                    return
                version, event = self._version, self._event
                if event.kind != SNAPSHOT:
                    yield event
                    continue
                sent, before = event, sent
                yield event if before is None else self._difference(before, event)
        finally:
            self._followers -= 1

    def _difference(self, before: ServerEvent, now: ServerEvent) -> ServerEvent:
        """Return the patch between two snapshots; pages that have the same one share it."""
        known = self._patch
        if known is None or known[0] is not before or known[1] is not now:
            patch = ServerEvent(PATCH, merge_patch(before.document, now.document))
            self._patch = known = before, now, patch
        return known[2]

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
            async with asyncio.timeout(TAKE_S_MAX):
                found = without_nulls(await self._take())
            event = ServerEvent(SNAPSHOT, found)
        except TimeoutError:
            event = self._failed("deadline-exceeded", f"no sample within {TAKE_S_MAX:.0f} s")
        except RhumblineError as error:
            event = self._failed(error.code, str(error), error)
        except Exception as error:  # logged and shown; a later sample may succeed
            event = self._failed("internal", f"{type(error).__name__}: {error}", error)
        self._event = event
        self._version += 1

    def _failed(self, code: str, text: str, error: Exception | None = None) -> ServerEvent:
        """Return the event of a failure. The first one after a snapshot is logged."""
        if self._event is None or self._event.kind == SNAPSHOT:
            if code == "internal":
                _LOG.error("snapshot failed", exception=error)
            else:
                _LOG.warning("snapshot not taken", error=text)
        return ServerEvent(UNAVAILABLE, {"error": text, "code": code})
