"""Suggests home regions, and moves them if the settings allow it (rules PRX-54, PRX-55)."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import NamedTuple

from ...core.protocol.errors import RhumblineError
from ...core.runtime.event_log import EventLog
from ...core.runtime.tasks import Tasks
from ..balance.assignment_store import read_table
from ..config import ProxyConfig
from ..membership import WRITE
from ..routing import stream_key
from ..write.owned_stream import StreamInService
from ..write.write_proxy import WriteProxy
from .home_advice import HomeAdvice, advise

_LOG = EventLog(__name__)

_HOUR_S = 3_600.0
_CHECKS_PER_WINDOW = 10
_STREAMS_AT_ONCE = 100
"""Streams that are examined before the event loop serves others."""


class StreamOrigins(NamedTuple):
    """From where a served stream is written, and what follows for its home."""

    home: str
    rates: dict[str, float]
    """Records per second by region of the client, the highest first."""
    observed_ms: int
    advice: HomeAdvice


class HomeKeeper:
    """The home regions of the streams that one write proxy owns."""

    def __init__(self, writes: WriteProxy, config: ProxyConfig) -> None:
        self.moved_count = 0
        self._writes = writes
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._moved_at: deque[float] = deque()

    def start(self) -> None:
        """Move homes from now on, if the settings allow it."""
        if self._config.home_moves_per_hour:
            self._tasks.spawn(self._move_homes(), "home regions")

    async def aclose(self) -> None:
        """Stop. Safe to repeat."""
        await self._tasks.aclose()

    async def origins(self, stream: StreamInService) -> StreamOrigins:
        """Return from where a served stream is written. Raises MetadataUnavailableError."""
        home = await stream.store.claims.home(stream.namespace, stream.name)
        return self._origins(home, stream)

    def _origins(self, home: str, stream: StreamInService) -> StreamOrigins:
        now, store, served = self._loop.time(), stream.store, stream.served
        rates = served.origins.per_second(now)
        observed_ms = served.origins.observed_ms(now)
        members = store.membership.members(WRITE)
        advice = advise(
            home or store.membership.own_member.region,
            rates,
            observed_ms,
            self._config,
            allowed=served.policy.regions,
            available={member.region for member in members if member.is_accepting},
        )
        return StreamOrigins(home, rates, observed_ms, advice)

    async def _move_homes(self) -> None:
        """Move the homes of streams that are written elsewhere, within the limit per hour."""
        while True:
            await asyncio.sleep(self._config.home_window_ms / 1000 / _CHECKS_PER_WINDOW)
            for number, stream in enumerate(self._writes.served_streams()):
                if not self._may_move():
                    break
                if number % _STREAMS_AT_ONCE == 0:
                    await asyncio.sleep(0)
                with suppress(RhumblineError):  # the next round decides again
                    await self._move_if_advised(stream)

    async def _move_if_advised(self, stream: StreamInService) -> None:
        store = stream.store
        known_home = store.membership.own_member.region
        if not self._origins(known_home, stream).advice.region:
            return  # without a read of the metadata, which is the usual case
        found = await self.origins(stream)
        if not found.advice.region:
            return
        assignments = await read_table(store.metadata, known_home)
        if stream_key(stream.namespace, stream.name) in assignments.table.pinned:
            return  # a pin holds within its region only (rule PRX-43)
        await store.claims.set_home(stream.namespace, stream.name, found.advice.region)
        self.moved_count += 1
        self._moved_at.append(self._loop.time())
        _LOG.info(
            "home moved",
            namespace=stream.namespace,
            stream=stream.name,
            home=found.home,
            region=found.advice.region,
            reason=found.advice.reason,
        )

    def _may_move(self) -> bool:
        now = self._loop.time()
        while self._moved_at and now - self._moved_at[0] >= _HOUR_S:
            self._moved_at.popleft()
        return len(self._moved_at) < self._config.home_moves_per_hour
