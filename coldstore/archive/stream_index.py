"""What the archive of a stream holds, from its manifests alone, and where a row count ends.

Needs only pyarrow.

Manifests never change, so each is read once; what is new or gone is found by listing.
"""

from bisect import bisect_left
from collections.abc import AsyncIterator

import pyarrow as pa
import pyarrow.compute as pc

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import NoSuchStreamError
from ...core.runtime.cold_store import ColdStore
from .catalog import archived_lssns, archived_streams, read_manifest
from .manifest import Manifest, Part, segment_folder
from .part_file import PartFile


class StreamIndex:
    """The archived segments of one stream. ``refresh`` first."""

    def __init__(self, cold: ColdStore, namespace: str, stream: str) -> None:
        self._cold = cold
        self._namespace = namespace
        self._stream = stream
        self.manifests: dict[int, Manifest] = {}
        """By LSSN, rising."""

    async def refresh(self) -> None:
        """Looks what there is now. Raises CorruptionError, UnavailableError.

        A listing may be late: what it leaves out among the others, or what was known, is asked for
        by name before it is taken for gone.
        """
        listed = await archived_lssns(self._cold, self._namespace, self._stream)
        known = self.manifests
        numbers = {*listed, *known}
        found: dict[int, Manifest] = {}
        for lssn in range(min(numbers), max(numbers) + 1) if numbers else ():
            manifest = known.get(lssn) if lssn in listed else None
            if manifest is None:
                manifest = await read_manifest(self._cold, self._namespace, self._stream, lssn)
            if manifest is not None:
                found[lssn] = manifest
        self.manifests = found

    def first(self) -> Dlsn:
        """The first position. Raises NoSuchStreamError when there is no archive."""
        return Dlsn(min(self._known()), 0, 0)

    def end(self) -> Dlsn:
        """Behind the newest segment that has no hole before it. Raises NoSuchStreamError."""
        lssn = min(self._known())
        while lssn in self.manifests:
            lssn += 1
        return Dlsn(lssn, 0, 0)

    def _known(self) -> dict[int, Manifest]:
        if not self.manifests:
            raise NoSuchStreamError(
                f"no archive of {self._namespace}/{self._stream} in {self._cold.uri}"
            )
        return self.manifests

    # --- rows -----------------------------------------------------------------------------------

    async def border(self, start: Dlsn, end: Dlsn, rows: int) -> Dlsn:
        """The last entry border in (start, end] with at most ``rows`` rows from ``start`` to it.

        If already the first entry has more, the border behind it.
        """
        wanted = await self._sequence_of(start) + rows
        for lssn in range(start.lssn, end.lssn + 1):
            manifest = self.manifests.get(lssn)
            if manifest is None:
                break
            if wanted < manifest.start_sequence_id + manifest.record_count:
                inside = wanted - manifest.start_sequence_id
                entry_id = await self._entry_of_row(manifest, inside)
                lowest = Dlsn(start.lssn, start.entry_id + 1, 0)
                return min(end, max(lowest, Dlsn(lssn, entry_id, 0)))
        return end

    async def first_at_time(self, lssn: int, ms: int) -> Dlsn | None:
        """The first entry of a segment with a record made at ``ms`` or later; None if none is."""
        manifest = self.manifests[lssn]
        for part in manifest.parts:
            async for table in self._tables(manifest, part, ["entry_id", "created_ms"]):
                late = pc.index(pc.greater_equal(table.column("created_ms"), ms), True).as_py()
                if late >= 0:
                    return Dlsn(lssn, table.column("entry_id")[late].as_py(), 0)
        return None

    async def _sequence_of(self, position: Dlsn) -> int:
        manifest = self.manifests.get(position.lssn)
        if manifest is None:
            before = self.manifests.get(position.lssn - 1)
            return 0 if before is None else before.start_sequence_id + before.record_count
        rows = manifest.start_sequence_id
        for part in manifest.parts:
            if part.last_entry_id < position.entry_id:
                rows += part.record_count
            elif part.first_entry_id < position.entry_id:
                rows += bisect_left(await self._entry_ids(manifest, part), position.entry_id)
        return rows

    async def _entry_of_row(self, manifest: Manifest, row: int) -> int:
        """The entry that has row ``row`` of the segment."""
        for part in manifest.parts:
            if row < part.record_count:
                return (await self._entry_ids(manifest, part))[row]
            row -= part.record_count
        raise AssertionError("the row was counted by the manifest")

    async def _entry_ids(self, manifest: Manifest, part: Part) -> list[int]:
        found: list[int] = []
        async for table in self._tables(manifest, part, ["entry_id"]):
            found.extend(table.column("entry_id").to_pylist())
        return found

    async def _tables(
        self, manifest: Manifest, part: Part, columns: list[str]
    ) -> AsyncIterator["pa.Table"]:
        folder = segment_folder(self._namespace, self._stream, manifest.lssn)
        file = await PartFile.open(self._cold, f"{folder}/{part.name}", part.size_bytes)
        for group in range(len(file.row_groups)):
            yield await file.read(group, columns)


class NamespaceIndex:
    """The indexes of the streams that are asked for."""

    def __init__(self, cold: ColdStore, namespace: str) -> None:
        self._cold = cold
        self._namespace = namespace
        self._streams: dict[str, StreamIndex] = {}

    async def streams(self) -> list[str]:
        """The streams that have archived segments now, in order."""
        return await archived_streams(self._cold, self._namespace)

    def of(self, stream: str) -> StreamIndex:
        """The index of a stream, the same each time."""
        if stream not in self._streams:
            self._streams[stream] = StreamIndex(self._cold, self._namespace, stream)
        return self._streams[stream]
