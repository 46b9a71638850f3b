"""Archives one completed segment (rule STR-22).

The steps are: upload the parts, read them back and verify them, publish the manifest, advance the
tip of the chain, record the residence and the link in the segment's metadata. Only then may the hot
copy be deleted. A crash at any step leaves either no archive (parts without a manifest, which the
next attempt deletes) or a complete one (whose tip and residence the next attempt records). Two
archivers of the same segment cannot mix their parts: the names of parts differ, and only one
manifest is created.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from ...core.log.ledger_interface import LedgerProvider
from ...core.log.metadata.stream_metadata import StreamRecord
from ...core.log.metadata.stream_reads import StoredSegment
from ...core.log.metadata.stream_store import StreamStore
from ...core.protocol.errors import (
    CorruptionError,
    GapError,
    InvalidArgumentError,
    NoSuchStreamError,
)
from ...core.protocol.record_set import RecordSet, decode_entry
from ...core.protocol.segments import Residence, Segment
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.metadata_store import MetadataStore
from ...core.runtime.primitives.rate_limiter import RateLimiter
from ...core.runtime.runtime import Runtime
from ..config import ArchiveConfig
from ..proof.chain_writer import ChainWriter
from ..proof.verify import verify_segment
from ..stores.known_outcome import put_object
from .archive_folder import ArchiveFolder, part_name
from .catalog import read_manifest, stored_parts
from .content_digest import ContentDigest
from .manifest import CHAIN_START, Manifest, Part
from .part import PartWriter
from .schema import PartOrigin

DEFAULTS = ArchiveConfig()

_READ_ENTRIES = 500
_ATTEMPT_BYTES = 8
_ATTEMPT = slice(-24, -8)
"""Where the name of a part has its attempt."""


@dataclass(slots=True)
class _Totals:
    """Totals over the records of a segment, counted while they are read."""

    records: int = 0
    payload_bytes: int = 0
    first_txid: int = 0
    last_txid: int = 0

    def add(self, record_set: RecordSet) -> None:
        """Count a data record set."""
        if self.records == 0:
            self.first_txid = record_set.first_txid
        self.last_txid = record_set.last_txid
        self.records += record_set.count
        self.payload_bytes += record_set.payload_bytes


class SegmentArchiver:
    """Archives segments of one namespace into one cold store."""

    def __init__(
        self,
        runtime: Runtime,
        cold: ColdStore,
        ledgers: LedgerProvider,
        streams: StreamStore,
        *,
        rate_limiter: RateLimiter | None = None,
        config: ArchiveConfig | None = None,
    ) -> None:
        self._config = config or DEFAULTS
        self._runtime = runtime
        self._cold = cold
        self._ledgers = ledgers
        self._streams = streams
        self._rate_limiter = rate_limiter or RateLimiter(None)
        self._chain = ChainWriter(cold)
        self._swept: set[ArchiveFolder] = set()

    @classmethod
    def for_namespace(
        cls,
        namespace: str,
        cold: ColdStore,
        *,
        runtime: Runtime,
        ledgers: LedgerProvider,
        store: MetadataStore,
        config: ArchiveConfig | None = None,
    ) -> "SegmentArchiver":
        """Return an archiver that uses the parts of an open client."""
        return cls(runtime, cold, ledgers, StreamStore(store, namespace), config=config)

    async def archive(self, stream: str, lssn: int) -> Manifest:
        """Archive segment ``lssn``, the first of its stream or the successor of an archived one.

        Safe to repeat and to run concurrently. Raises InvalidArgumentError if the segment does not
        exist, is not completed or is not next in the chain; CorruptionError or GapError if it
        cannot be read completely; and the errors of the stores.
        """
        record, _ = await self._completed(stream, lssn)
        if await self._manifest(stream, record, lssn) is None:
            await self._previous_link(stream, record, lssn)  # fails before the upload
        return await self.commit(stream, await self.upload(stream, lssn))

    async def upload(self, stream: str, lssn: int) -> Manifest:
        """Write the parts and read them back, without publishing an archive.

        Return the manifest for ``commit``. Segments may be uploaded in any order and concurrently,
        also by several processes. If the segment is archived already, nothing is written. Raises
        the errors of ``archive``.
        """
        record, stored = await self._completed(stream, lssn)
        found = await self._manifest(stream, record, lssn)
        if found is not None:
            return found
        try:
            return await self._write(stream, record, stored.segment)
        except CorruptionError:
            # Another archiver may have committed first and deleted these parts.
            winner = await self._manifest(stream, record, lssn)
            if winner is None:
                raise
            return winner

    async def commit(self, stream: str, uploaded: Manifest) -> Manifest:
        """Publish the manifest of uploaded parts and record the residence. Call in order of LSSN.

        Return the valid manifest, which another archiver may have committed first.
        Raises the errors of ``archive``.
        """
        lssn = uploaded.lssn
        record, stored = await self._completed(stream, lssn, uploaded.stream_identity)
        manifest = await self._manifest(stream, record, lssn)
        if manifest is None:
            previous_link = await self._previous_link(stream, record, lssn)
            manifest = await self._chain.publish(uploaded, previous_link)
        await self._chain.cover(manifest)
        await self._delete_unused_parts(manifest, uploaded)
        if stored.segment.residence is Residence.HOT:
            updated = stored.segment.archived(manifest.link)
            await self._streams.replace_segment(stream, stored, updated)
        return manifest

    async def _completed(
        self, stream: str, lssn: int, identity: str | None = None
    ) -> tuple[StreamRecord, StoredSegment]:
        """Read the stream with ``identity``, None: the one that has the name, and its segment."""
        record = (await self._streams.record(stream))[0]
        if identity is not None and record.identity != identity:
            raise NoSuchStreamError(f"stream {stream} was deleted while it was archived")
        stored = await self._streams.segment(stream, lssn, record.stream_id)
        if stored is None or not stored.segment.is_completed:
            raise InvalidArgumentError(f"stream {stream}: segment {lssn} is not completed")
        return record, stored

    async def _write(self, stream: str, record: StreamRecord, segment: Segment) -> Manifest:
        attempt = self._runtime.random_bytes(_ATTEMPT_BYTES).hex()
        folder = self._folder(stream, record)
        digest, totals = ContentDigest(), _Totals()
        parts: list[Part] = []
        origin = PartOrigin(*folder[:2], record.identity, segment.lssn)
        async for writer in self._part_writers(origin, segment, digest, totals):
            name = part_name(segment.lssn, len(parts), attempt)
            parts.append(await self._put_part(folder.part(name), name, writer))
        if totals.records != segment.record_count:
            raise GapError(
                f"stream {stream}: segment {segment.lssn} has {totals.records} records, "
                f"but {segment.record_count} according to its metadata"
            )
        manifest = Manifest(
            namespace=self._streams.namespace,
            stream=stream,
            stream_identity=record.identity,
            lssn=segment.lssn,
            last_entry_id=segment.last_entry_id,
            record_count=totals.records,
            payload_bytes=totals.payload_bytes,
            first_txid=totals.first_txid,
            last_txid=totals.last_txid,
            start_sequence_id=segment.start_sequence_id,
            created_ms=segment.created_ms,
            completed_ms=segment.completed_ms,
            ends_stream=segment.ends_stream,
            content_digest=digest.hex(),
            previous_link=CHAIN_START,  # commit sets it
            parts=tuple(parts),
            doubt=segment.doubt,
            policy=(await self._streams.policy_of(record)).to_fields(),
        )
        await verify_segment(self._cold, manifest, rate_limiter=self._rate_limiter)
        return manifest

    async def _previous_link(self, stream: str, record: StreamRecord, lssn: int) -> str:
        folder = self._folder(stream, record)
        return await self._chain.previous_link(folder, lssn, oldest_lssn=record.first_lssn)

    async def _part_writers(
        self, origin: PartOrigin, segment: Segment, digest: ContentDigest, totals: _Totals
    ) -> AsyncIterator[PartWriter]:
        """Read the whole ledger of the segment and yield a filled writer for each part."""
        writer = PartWriter(origin, self._config.row_group_bytes)
        async for entry_id, record_sets in self._entries(segment):
            for record_set in record_sets:
                if not record_set.is_control:
                    digest.add(entry_id, record_set.slot, record_set.raw_crc)
                    totals.add(record_set)
            writer.add(entry_id, record_sets)
            if writer.stored_bytes >= self._config.part_bytes:
                yield writer
                writer = PartWriter(origin, self._config.row_group_bytes)
        if writer.record_count:
            yield writer

    async def _entries(self, segment: Segment) -> AsyncIterator[tuple[int, list[RecordSet]]]:
        if segment.is_empty:
            return
        reader = await self._ledgers.open(segment.ledger_id)
        try:
            next_id = 0
            while next_id <= segment.last_entry_id:
                last = min(next_id + _READ_ENTRIES - 1, segment.last_entry_id)
                entries = await reader.read(next_id, last)
                await self._rate_limiter.acquire(sum(len(entry.payload) for entry in entries))
                for entry in entries:
                    if entry.entry_id != next_id:
                        raise GapError(f"segment {segment.lssn}: entry {next_id} is missing")
                    yield entry.entry_id, decode_entry(entry.payload)
                    next_id += 1
        finally:
            await reader.aclose()

    async def _put_part(self, key: str, name: str, writer: PartWriter) -> Part:
        data = writer.finish()
        await self._rate_limiter.acquire(len(data))
        await put_object(self._cold, key, data)
        return writer.describe(name, data)

    async def _delete_unused_parts(self, manifest: Manifest, uploaded: Manifest) -> None:
        """Delete the parts of other attempts, which cannot be used: the manifest is published.

        Those that crashed archivers left are looked for once for each stream, as that takes a
        listing of the stream's parts.
        """
        named = {part.name for part in manifest.parts}
        for part in uploaded.parts:
            if part.name not in named:
                await self._cold.delete(uploaded.part_key(part))
        if manifest.folder not in self._swept:
            self._swept.add(manifest.folder)
            await self._sweep(manifest.folder)

    async def _sweep(self, folder: ArchiveFolder) -> None:
        for lssn, names in (await stored_parts(self._cold, folder)).items():
            if len({name[_ATTEMPT] for name in names}) == 1:
                continue  # of the one attempt that was published, or may still be
            manifest = await read_manifest(self._cold, folder, lssn)
            if manifest is not None:
                for name in {*names} - {part.name for part in manifest.parts}:
                    await self._cold.delete(folder.part(name))

    async def _manifest(self, stream: str, record: StreamRecord, lssn: int) -> Manifest | None:
        return await read_manifest(self._cold, self._folder(stream, record), lssn)

    def _folder(self, stream: str, record: StreamRecord) -> ArchiveFolder:
        return ArchiveFolder(self._streams.namespace, stream, record.stream_id)
