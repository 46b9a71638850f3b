"""Tests of the log lines about a metadata store that is unavailable."""

import logging

import pytest

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.backends.migrating_store import MigratingStore
from rhumbline.backends.migration_fence import MovableStore
from rhumbline.core.protocol.errors import MetadataUnavailableError
from rhumbline.core.runtime.metadata_store import Value
from rhumbline.tests.support.fakes.jumping_loop import run_jumping


class UnreliableStore(MemoryStore):
    is_unavailable = False

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        if self.is_unavailable:
            raise MetadataUnavailableError("no server")
        return await super().get(path, stale_ok=stale_ok)


@pytest.mark.run_by(runner=run_jumping)
async def test_an_outage_is_logged_once_at_its_start_and_once_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        inner = UnreliableStore(MemoryTree(), "memory:x")

        async def opener(_: str) -> MovableStore:
            raise AssertionError("nothing was migrated")

        store = MigratingStore(inner, opener, 1_000)
        await store.get("/")
        inner.is_unavailable = True
        for _ in range(3):
            with pytest.raises(MetadataUnavailableError):
                await store.get("/")
        inner.is_unavailable = False
        for _ in range(3):
            await store.get("/")
        await store.close()
    gone, back = caplog.records
    assert gone.levelno == logging.WARNING
    assert gone.getMessage().startswith(
        'metadata store unavailable uri=memory:x error="MetadataUnavailableError: no server" '
        'consequence="open streams continue; '
    )
    assert back.levelno == logging.INFO
    assert back.getMessage() == "metadata store available uri=memory:x outage_ms=0 failed_calls=3"
