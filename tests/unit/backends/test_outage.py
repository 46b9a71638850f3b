"""What a process says of a metadata store that does not answer."""

import asyncio
import logging

import pytest

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.backends.migrating_store import MigratingStore
from rhumbline.backends.migration_fence import MovableStore
from rhumbline.core.protocol.errors import MetadataUnavailableError
from rhumbline.core.runtime.metadata_store import Value


class Leaving(MemoryStore):
    is_away = False

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        if self.is_away:
            raise MetadataUnavailableError("nobody is there")
        return await super().get(path, stale_ok=stale_ok)


def test_one_line_when_it_goes_and_one_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        inner = Leaving(MemoryTree(), "memory:x")

        async def opener(_: str) -> MovableStore:
            raise AssertionError("nothing was migrated")

        store = MigratingStore(inner, opener, 1_000)
        await store.get("/")
        inner.is_away = True
        for _ in range(3):
            with pytest.raises(MetadataUnavailableError):
                await store.get("/")
        inner.is_away = False
        for _ in range(3):
            await store.get("/")
        await store.close()

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    gone, back = [record.getMessage() for record in caplog.records]
    assert gone.startswith("metadata store memory:x is away: nobody is there; open streams go on")
    assert back == "metadata store memory:x answers again after 0.0 s; 3 calls got no answer"
