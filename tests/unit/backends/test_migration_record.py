"""The progress of a migration is recorded in its source while it copies, and removed at its end."""

import asyncio
from typing import cast

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.backends.migration import MigrationProgress
from rhumbline.backends.migration_record import (
    RECORD_PATH,
    SILENCE_MS_MAX,
    MigrationPublisher,
    read_migration,
)
from rhumbline.core.protocol.errors import StoreFencedError
from rhumbline.core.runtime.metadata_store import MetadataStore, Version
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.recorded_log import recorded_log

pytestmark = pytest.mark.run_by(runner=run_jumping)


def wall_ms() -> int:
    """Return a time of day that follows the loop."""
    return int(asyncio.get_running_loop().time() * 1000)


async def test_progress_is_recorded_until_the_end() -> None:
    source, target = MemoryStore(), MemoryStore()
    publisher = MigrationPublisher(source, target, wall_ms)
    async with publisher:
        publisher.note(MigrationProgress("copying", 100, 7))
        await asyncio.sleep(5)
        found = await read_migration(source)
        assert found is not None
        assert (found.step, found.nodes, found.changes) == ("copying", 100, 7)
        assert not found.is_interrupted(wall_ms())
        assert found.is_interrupted(wall_ms() + SILENCE_MS_MAX + 2_000)
        await target.create(RECORD_PATH, b"{}")  # it is copied like every node
    assert await read_migration(source) is None
    assert await read_migration(target) is None


async def test_a_closed_source_ends_the_records_but_not_the_migration() -> None:
    class Closed(MemoryStore):
        async def create(self, *_: object, **__: object) -> tuple[str, Version]:
            raise StoreFencedError("replaced")

    with recorded_log() as log:
        store = cast(MetadataStore, Closed())
        async with MigrationPublisher(store, MemoryStore(), wall_ms):
            await asyncio.sleep(5)
    assert len(log.fields("migration progress not written")) == 1


async def test_a_record_that_cannot_be_read_is_no_progress() -> None:
    store = MemoryStore()
    await store.create(RECORD_PATH, b"?")
    assert await read_migration(store) is None
