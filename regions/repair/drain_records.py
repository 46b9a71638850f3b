"""Records of when drains began and what was left then, so that any process can estimate their end.

::

    <root>/rhumbline/repair/drains/<bookie id, or region:<name>>      DrainRecord
"""

import json
from contextlib import suppress
from dataclasses import dataclass

from ...core.metadata import idempotent_writes
from ...core.metadata.cluster_layout import ROOT
from ...core.protocol.errors import CorruptionError, NodeExistsError
from ...core.protocol.metadata_record import fields_to_store
from ...core.runtime.metadata_store import MetadataStore


@dataclass(frozen=True, slots=True)
class DrainRecord:
    """The beginning of a drain."""

    since_ms: int
    """Time of day in ms."""
    entries: int
    """Entries that had to move, counted once for each copy."""

    def left_ms(self, entries: int, now_ms: int) -> int | None:
        """Return the time until ``entries`` have moved too, at the rate so far.

        None if nothing has moved yet.
        """
        moved = self.entries - entries
        if moved <= 0:
            return None
        return max(0, now_ms - self.since_ms) * entries // moved


class DrainRecords:
    """The records of all drains in one metadata store, by target (see ``region_target``)."""

    def __init__(self, store: MetadataStore, root: str = ROOT) -> None:
        self._store = store
        self._root = f"{root}/rhumbline/repair/drains"

    async def begin(self, target: str, record: DrainRecord) -> DrainRecord:
        """Record the beginning, unless it is recorded; return what is stored. Safe to repeat."""
        with suppress(NodeExistsError):
            data = json.dumps(fields_to_store(record), separators=(",", ":")).encode()
            await idempotent_writes.create(self._store, self._path(target), data)
        return await self.read(target) or record

    async def read(self, target: str) -> DrainRecord | None:
        """Return the record of a drain; None if there is none. Raises CorruptionError."""
        value = await idempotent_writes.read_if_exists(self._store, self._path(target))
        if value is None:
            return None
        try:
            return DrainRecord(**json.loads(value.data))
        except (ValueError, TypeError) as error:
            raise CorruptionError(
                f"record of the drain of {target}: {value.data[:80]!r}"
            ) from error

    async def end(self, target: str) -> None:
        """Remove the record of a drain that is over. Safe to repeat."""
        await idempotent_writes.discard(self._store, self._path(target))

    def _path(self, target: str) -> str:
        return f"{self._root}/{target}"


def region_target(region: str) -> str:
    """Return the target of the drain of a region."""
    return f"region:{region}"
