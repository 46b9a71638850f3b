"""The record of a migration that copies, kept in its source for those who watch its progress.

::

    <root>/rhumbline/migration     MigrationRecord

Nothing depends on it. It is written while the source is open, about once per second; the switch is
short, and has no progress. The node is copied like any other, and removed after the switch.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from ..core.metadata import idempotent_writes
from ..core.metadata.cluster_layout import ROOT
from ..core.protocol.errors import MetadataError, NodeExistsError
from ..core.protocol.metadata_record import fields_to_store
from ..core.runtime.event_log import EventLog
from ..core.runtime.metadata_store import MetadataReads, MetadataStore
from ..core.runtime.tasks import Tasks
from .migration import MigrationProgress

_LOG = EventLog(__name__)

RECORD_PATH = f"{ROOT}/rhumbline/migration"
WRITTEN_EVERY_S = 1.0
SILENCE_MS_MAX = 30_000
"""Time without progress after which a migration counts as interrupted."""


@dataclass(frozen=True, slots=True)
class MigrationRecord:
    """The progress of a migration. Times are times of day in ms."""

    source: str
    target: str
    """The URIs of the stores, without secrets."""
    began_ms: int
    updated_ms: int
    step: str = "beginning"
    nodes: int = 0
    """Nodes in the source, as of the pass in progress."""
    changes: int = 0
    """Nodes that this pass has copied, changed or deleted in the target."""

    def is_interrupted(self, now_ms: int) -> bool:
        """Return whether nothing has been heard of the migration for long."""
        return now_ms - self.updated_ms > SILENCE_MS_MAX


async def read_migration(store: MetadataReads) -> MigrationRecord | None:
    """Return the record in a store; None if there is none that can be read as one."""
    value = await idempotent_writes.read_if_exists(store, RECORD_PATH)
    if value is None:
        return None
    try:
        return MigrationRecord(**json.loads(value.data))
    except (ValueError, TypeError):
        return None  # written by another version; only its progress is unknown


async def write_migration(store: MetadataStore, record: MigrationRecord) -> None:
    """Replace the record in a store. Raises MetadataError."""
    data = json.dumps(fields_to_store(record), separators=(",", ":")).encode()
    try:
        await store.create(RECORD_PATH, data)
    except NodeExistsError:
        await store.put(RECORD_PATH, data)


async def remove_migration(store: MetadataStore) -> None:
    """Remove the record from a store. Safe to repeat. Raises MetadataError."""
    await idempotent_writes.discard(store, RECORD_PATH)


class MigrationPublisher:
    """Writes the progress of a migration into its source, until the block ends."""

    def __init__(
        self, source: MetadataStore, target: MetadataStore, wall_ms: Callable[[], int]
    ) -> None:
        now_ms = wall_ms()
        self._stores = source, target
        self._wall_ms = wall_ms
        self._record = MigrationRecord(source.uri, target.uri, now_ms, now_ms)
        self._tasks = Tasks()

    def note(self, progress: MigrationProgress) -> None:
        """Note the progress; it is written soon."""
        self._record = replace(
            self._record, step=progress.step, nodes=progress.nodes, changes=progress.changes
        )

    async def __aenter__(self) -> Self:
        self._tasks.spawn(self._write(), "publish a migration")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._tasks.aclose()
        for store in self._stores:
            try:
                await remove_migration(store)
            except MetadataError:
                continue  # it is closed, because the other store is in use

    async def _write(self) -> None:
        try:
            while True:
                now = replace(self._record, updated_ms=self._wall_ms())
                await write_migration(self._stores[0], now)
                await asyncio.sleep(WRITTEN_EVERY_S)
        except MetadataError as error:  # the source was closed for the switch, or is unreachable
            _LOG.info("migration progress not written", error=error)
