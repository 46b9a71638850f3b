"""A cold store in memory whose requests take time, and whose responses may be lost."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from ....core.protocol.errors import RhumblineError, UnavailableError, UnknownOutcomeError
from ....core.runtime.cold_store import ObjectStat
from ...lab.cold_store import MemoryColdStore

_ONE_WAY_MS = (2.0, 40.0)
_LOSS = 0.03
"""The share of requests that are lost, and that of responses."""


class ObjectChange(NamedTuple):
    """An object was created, or deleted."""

    at_ms: float
    key: str
    exists: bool


class SimColdStore(MemoryColdStore):
    """A ``ColdStore`` that all hosts of a run share. It records each change."""

    def __init__(self, random: Random, now_ms: Callable[[], float]) -> None:
        super().__init__()
        self.changes: list[ObjectChange] = []
        self.is_lossy = True
        """True if requests and responses may be lost."""
        self._random = random
        self._now_ms = now_ms

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See ColdStore."""
        await self._travel()
        was_created = await super().put_if_absent(key, data)
        if was_created:
            self.changes.append(ObjectChange(self._now_ms(), key, exists=True))
        await self._travel(UnknownOutcomeError)
        return was_created

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """See ColdStore."""
        await self._travel()
        return await super().get(key, offset, length)

    async def stat(self, key: str) -> ObjectStat:
        """See ColdStore."""
        return ObjectStat(len(await self.get(key)), None)

    async def list(self, prefix: str = "") -> list[str]:
        """See ColdStore."""
        await self._travel()
        return await super().list(prefix)

    async def delete(self, key: str) -> None:
        """See ColdStore."""
        await self._travel()
        await super().delete(key)
        self.changes.append(ObjectChange(self._now_ms(), key, exists=False))
        await self._travel(UnknownOutcomeError)

    async def _travel(self, loss: type[RhumblineError] = UnavailableError) -> None:
        await asyncio.sleep(self._random.uniform(*_ONE_WAY_MS) / 1000)
        if self.is_lossy and self._random.random() < _LOSS:
            raise loss("a message between the archiver and the cold store was lost")
