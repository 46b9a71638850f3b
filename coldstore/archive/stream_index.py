"""An index of the archived segments of a stream, made from manifests alone. Needs only pyarrow.

Manifests never change, so each is read once. Listings show which segments were added or deleted.
The index also finds positions by row count and by time, for which it reads single columns.
"""

from bisect import bisect_left
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pyarrow as pa
import pyarrow.compute as pc

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import (
    CorruptionError,
    ForeignDataError,
    NoSuchStreamError,
)
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.tasks import for_each
from ..erase.erased_set import ErasedRecords
from ..proof.chain_tip import ChainTip, check_in_chain, lost_tip_error, read_tip
from ..proof.erasure_chain import stored_relocations
from .archive_folder import ArchiveFolder, TipName
from .catalog import ListedChain, listed_chains, read_manifest
from .manifest import Manifest, Part
from .part_scan import RowSelection, read_row_groups
from .relocation import Relocations
from .schema import MICROSECONDS_PER_MS, TIMESTAMP

_MANIFESTS_AT_A_TIME = 16


class ArchivedSegments(dict[int, Manifest]):
    """The manifests of an archive by LSSN, ascending, and what its chain says about the others."""

    stream_id = ""
    covered = range(0)
    """The segments that the archive must hold, and those above them that it holds as well."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: dict[int, CorruptionError | ForeignDataError] = {}
        """Errors of damaged manifests; a manifest that does not exist is only absent."""

    @property
    def is_complete(self) -> bool:
        """True if there is a manifest for every segment that the archive must hold."""
        return len(self) == len(self.covered)

    def check(self, lssn: int) -> None:
        """Raise the error of the segment's manifest, if it is damaged."""
        if lssn in self.faults:
            raise self.faults[lssn]


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
        self._tips: dict[ArchiveFolder, tuple[list[TipName], ChainTip]] = {}
        self._state: tuple[ChainTip, list[int], tuple[int, ...] | None] | None = None
        """The tip, the listed segments and the relocations from which ``manifests`` were made."""
        self.is_read = False
        """True after the first refresh."""
        self.manifests = ArchivedSegments()

    async def refresh(
        self, stream_id: str = "", chains: dict[ArchiveFolder, ListedChain] | None = None
    ) -> None:
        """Update the index. Raises CorruptionError for a chain without a usable tip.

        ``chains`` are those of the stream's name according to a listing or to the index of the
        namespace; None: list them.

        A listing may be stale. A segment that it omits, although it was known or the tip covers it,
        is looked up by its key before it counts as missing.
        """
        if chains is None:
            chains = await listed_chains(self._cold, self._namespace, self._stream)
        folder = await self._chosen(chains, stream_id)
        if folder != self._folder:
            self._folder, self.manifests = folder, ArchivedSegments()
        if folder is not None:
            tip = await self._tip(folder, chains)
            chain = chains.get(folder, ListedChain([], []))
            is_indexed = chain.manifests is not None
            state = tip, chain.lssns, chain.relocations
            if is_indexed or state != self._state or not self.manifests.is_complete:
                relocations = await self._relocations(folder, tip, chain)
                self.manifests = await self._read(folder, tip, chain, relocations)
                self._state = state
        self.is_read = True

    async def _chosen(
        self, chains: dict[ArchiveFolder, ListedChain], stream_id: str
    ) -> ArchiveFolder | None:
        """Return the folder of the stream with ``stream_id``, or that of the newest stream."""
        if stream_id:
            folder = ArchiveFolder(self._namespace, self._stream, stream_id)
            return folder if folder in chains or folder == self._folder else None
        if len(chains) <= 1:
            return next(iter(chains), self._folder)
        tips = {folder: await self._tip(folder, chains) for folder in chains}
        begun = {folder for folder in chains if chains[folder].lssns or tips[folder].covered}
        return max(begun or chains, key=lambda folder: tips[folder].created_ms)

    async def _tip(
        self, folder: ArchiveFolder, chains: dict[ArchiveFolder, ListedChain]
    ) -> ChainTip:
        """Return the tip of a chain; a tip that was read before is kept while it is the newest."""
        chain = chains.get(folder, ListedChain([], []))
        if chain.tip is not None:
            return chain.tip
        names, known = chain.tips, self._tips.get(folder)
        if known is None or not set(names) <= {*known[0], known[1].name}:
            tip = await read_tip(self._cold, folder, names)
            if tip is None:
                raise lost_tip_error(folder)
            known = self._tips[folder] = (names, tip)
        return known[1]

    async def _relocations(
        self, folder: ArchiveFolder, tip: ChainTip, chain: ListedChain
    ) -> Relocations:
        if chain.manifests is not None and chain.relocations is not None:
            return Relocations()  # the index has applied them
        return await stored_relocations(self._cold, folder, listed=chain.relocations, tip=tip)

    async def _read(
        self, folder: ArchiveFolder, tip: ChainTip, chain: ListedChain, relocations: Relocations
    ) -> ArchivedSegments:
        known = self.manifests if chain.manifests is None else chain.manifests
        found = ArchivedSegments()
        found.stream_id = folder.stream_id
        above = [lssn for lssn in chain.lssns if lssn > tip.last_lssn]
        kept = set(chain.lssns).intersection(known)
        missing = [lssn for lssn in (*tip.covered, *above) if lssn not in kept]
        read = await self._read_manifests(folder, missing)
        for lssn in (*tip.covered, *above):
            manifest = known[lssn] if lssn in kept else read[lssn]
            try:
                if isinstance(manifest, Exception):
                    raise manifest
                if manifest is not None:
                    check_in_chain(manifest, found.get(lssn - 1), tip)
                    found[lssn] = relocations.apply(manifest)
            except (CorruptionError, ForeignDataError) as error:
                found.faults[lssn] = error
        last = max((tip.last_lssn, *found, *found.faults))
        found.covered = range(tip.first_lssn, last + 1)
        return found

    async def _read_manifests(
        self, folder: ArchiveFolder, lssns: list[int]
    ) -> dict[int, Manifest | CorruptionError | ForeignDataError | None]:
        """Read manifests, several at a time; a damaged one is returned as its error."""
        found: dict[int, Manifest | CorruptionError | ForeignDataError | None] = {}

        async def read(lssn: int) -> None:
            try:
                found[lssn] = await read_manifest(self._cold, folder, lssn)
            except (CorruptionError, ForeignDataError) as error:
                found[lssn] = error

        await for_each(lssns, read, _MANIFESTS_AT_A_TIME)
        return found

    def first(self) -> Dlsn:
        """Return the first archived position. Raises NoSuchStreamError without an archive."""
        return Dlsn(self._known().covered[0], 0, 0)

    def end(self) -> Dlsn:
        """Return the end of the last archived segment. Raises NoSuchStreamError.

        Segments before it may be missing: ``manifests`` then has a gap.
        """
        return Dlsn(self._known().covered[-1] + 1, 0, 0)

    def _known(self) -> ArchivedSegments:
        if not self.manifests.covered:
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

    async def count(self, start: Dlsn, end: Dlsn) -> int:
        """Return the number of records in [start, end), with erased and missing ones."""
        if start >= end:
            return 0
        return await self._sequence_of(end) - await self._sequence_of(start)

    async def first_at_time(self, lssn: int, ms: int) -> Dlsn | None:
        """Return the first entry of a segment with a record created at ``ms`` or later, or None."""
        manifest = self.manifests[lssn]
        time = pa.scalar(ms * MICROSECONDS_PER_MS, TIMESTAMP)
        for part in manifest.parts:
            async with aclosing(self._tables(manifest, part, ["entry_id", "created"])) as tables:
                async for table in tables:
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
        if manifest.erased:
            return rows + bisect_left(await self._all_entry_ids(manifest), position.entry_id)
        for part in manifest.parts:
            if part.last_entry_id < position.entry_id:
                rows += part.record_count
            elif part.first_entry_id < position.entry_id:
                rows += bisect_left(await self._entry_ids(manifest, part), position.entry_id)
        return rows

    async def _entry_of_row(self, manifest: Manifest, row: int) -> int:
        """Return the id of the entry that holds row ``row`` of the segment, counted from 0."""
        if manifest.erased:
            return (await self._all_entry_ids(manifest))[row]
        for part in manifest.parts:
            if row < part.record_count:
                return (await self._entry_ids(manifest, part))[row]
            row -= part.record_count
        raise AssertionError(f"segment {manifest.lssn} has fewer rows than its manifest lists")

    async def _all_entry_ids(self, manifest: Manifest) -> list[int]:
        """Return the id of the entry of each record of a segment, erased ones included."""
        found = ErasedRecords(manifest.erased).entry_ids()
        for part in manifest.parts:
            found += await self._entry_ids(manifest, part)
        return sorted(found)

    async def _entry_ids(self, manifest: Manifest, part: Part) -> list[int]:
        found: list[int] = []
        async for table in self._tables(manifest, part, ["entry_id"]):
            found.extend(table.column("entry_id").to_pylist())
        return found

    async def _tables(
        self, manifest: Manifest, part: Part, columns: list[str]
    ) -> AsyncGenerator["pa.Table", None]:
        everything = RowSelection(part.first_entry_id, part.last_entry_id + 1)
        key = manifest.part_key(part)
        tables = read_row_groups(self._cold, key, manifest.lssn, part, everything, columns)
        async with aclosing(tables):
            async for table in tables:
                yield table
