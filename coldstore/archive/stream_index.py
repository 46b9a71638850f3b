"""An index of the archived segments of a stream, made from manifests alone. Needs only pyarrow.

Manifests never change, so each is read once. Listings show which segments were added or deleted.
The index also finds positions by row count and by time, for which it reads single columns.
"""

from bisect import bisect_left
from collections.abc import AsyncIterator

import pyarrow as pa
import pyarrow.compute as pc

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import NoSuchStreamError
from ...core.runtime.cold_store import ColdStore
from .archive_folder import ArchiveFolder
from .catalog import archived_segments, archived_streams, read_manifest
from .manifest import Manifest, Part
from .part_file import PartFile
from .schema import MICROSECONDS_PER_MS, TIMESTAMP


class StreamIndex:
    """The archived segments of the stream that has a name. Call ``refresh`` before anything else.

    Several streams may have had the name. The index is that of the stream with ``stream_id`` if it
    is known, otherwise that of the newest one.
    """

    def __init__(self, cold: ColdStore, namespace: str, stream: str) -> None:
        self._cold = cold
        self._namespace = namespace
        self._stream = stream
        self._folder: ArchiveFolder | None = None
        self._created_ms: dict[ArchiveFolder, int] = {}
        self.manifests: dict[int, Manifest] = {}
        """Manifests by LSSN, ascending."""

    async def refresh(self, stream_id: str = "") -> None:
        """Update the index. Raises CorruptionError and UnavailableError.

        A listing may be stale. A segment that it omits, although it was known or lies between
        others, is looked up by its key before it counts as deleted.
        """
        found = await archived_segments(self._cold, self._namespace, self._stream)
        folder = await self._chosen(found, stream_id)
        if folder != self._folder:
            self._folder, self.manifests = folder, {}
        if folder is not None:
            await self._read(folder, found.get(folder, []))

    async def _chosen(
        self, found: dict[ArchiveFolder, list[int]], stream_id: str
    ) -> ArchiveFolder | None:
        """Return the folder of the stream with ``stream_id``, or that of the newest stream."""
        if stream_id:
            return ArchiveFolder(self._namespace, self._stream, stream_id)
        if len(found) <= 1:
            return next(iter(found), self._folder)
        for folder, lssns in found.items():
            if folder not in self._created_ms:
                manifest = await read_manifest(self._cold, folder, lssns[0])
                if manifest is not None:  # None: it was deleted after the listing
                    self._created_ms[folder] = manifest.created_ms
        return max(self._created_ms, key=lambda folder: self._created_ms[folder])

    async def _read(self, folder: ArchiveFolder, listed: list[int]) -> None:
        known = self.manifests
        numbers = {*listed, *known}
        found: dict[int, Manifest] = {}
        for lssn in range(min(numbers), max(numbers) + 1) if numbers else ():
            manifest = known.get(lssn) if lssn in listed else None
            if manifest is None:
                manifest = await read_manifest(self._cold, folder, lssn)
            if manifest is not None:
                found[lssn] = manifest
        self.manifests = found

    def first(self) -> Dlsn:
        """Return the first archived position. Raises NoSuchStreamError without an archive."""
        return Dlsn(min(self._known()), 0, 0)

    def end(self) -> Dlsn:
        """Return the end of the last archived segment. Raises NoSuchStreamError.

        Segments before it may be missing: ``manifests`` then has a gap.
        """
        return Dlsn(max(self._known()) + 1, 0, 0)

    def _known(self) -> dict[int, Manifest]:
        if not self.manifests:
            raise NoSuchStreamError(
                f"stream {self._namespace}/{self._stream} has no archive in {self._cold.uri}"
            )
        return self.manifests

    # --- rows -----------------------------------------------------------------------------------

    async def boundary(self, start: Dlsn, end: Dlsn, rows: int) -> Dlsn:
        """Return the last entry boundary in (start, end] at most ``rows`` rows after ``start``.

        If the first entry alone has more rows, return the boundary after it.
        """
        end_sequence = await self._sequence_of(start) + rows
        for lssn in range(start.lssn, end.lssn + 1):
            manifest = self.manifests.get(lssn)
            if manifest is None:
                continue
            if end_sequence < manifest.start_sequence_id + manifest.record_count:
                # Below 0: the limit is reached in missing segments before this one.
                row = max(0, end_sequence - manifest.start_sequence_id)
                entry_id = await self._entry_of_row(manifest, row)
                lowest = Dlsn(start.lssn, start.entry_id + 1, 0)
                return min(end, max(lowest, Dlsn(lssn, entry_id, 0)))
        return end

    async def first_at_time(self, lssn: int, ms: int) -> Dlsn | None:
        """Return the first entry of a segment with a record created at ``ms`` or later, or None."""
        manifest = self.manifests[lssn]
        time = pa.scalar(ms * MICROSECONDS_PER_MS, TIMESTAMP)
        for part in manifest.parts:
            async for table in self._tables(manifest, part, ["entry_id", "created"]):
                row = pc.index(pc.greater_equal(table.column("created"), time), True).as_py()
                if row >= 0:
                    return Dlsn(lssn, table.column("entry_id")[row].as_py(), 0)
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
        """Return the id of the entry that holds row ``row`` of the segment, counted from 0."""
        for part in manifest.parts:
            if row < part.record_count:
                return (await self._entry_ids(manifest, part))[row]
            row -= part.record_count
        raise AssertionError(f"segment {manifest.lssn} has fewer rows than its manifest lists")

    async def _entry_ids(self, manifest: Manifest, part: Part) -> list[int]:
        found: list[int] = []
        async for table in self._tables(manifest, part, ["entry_id"]):
            found.extend(table.column("entry_id").to_pylist())
        return found

    async def _tables(
        self, manifest: Manifest, part: Part, columns: list[str]
    ) -> AsyncIterator["pa.Table"]:
        file = await PartFile.open(self._cold, manifest.part_key(part), part)
        for group in range(len(file.row_groups)):
            yield await file.read(group, columns)


class NamespaceIndex:
    """Indexes of the streams of a namespace, created on first use."""

    def __init__(self, cold: ColdStore, namespace: str) -> None:
        self._cold = cold
        self._namespace = namespace
        self._streams: dict[str, StreamIndex] = {}

    async def streams(self) -> list[str]:
        """Return the streams that have archived segments now, sorted."""
        return await archived_streams(self._cold, self._namespace)

    def index(self, stream: str) -> StreamIndex:
        """Return the index of a stream: the same object for every call."""
        if stream not in self._streams:
            self._streams[stream] = StreamIndex(self._cold, self._namespace, stream)
        return self._streams[stream]
