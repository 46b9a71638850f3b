"""Archives one completed segment: upload, read back, verify, publish the manifest, say so.

A crash at any step leaves either no archive (parts that no manifest names: litter, swept later) or
a whole one (whose residence the next attempt records). Two archivers of one segment cannot mix:
their parts have different names, and only one manifest is put. Only after all of this may the hot
copy go.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from ...core.log.ledger_interface import LedgerProvider
from ...core.log.metadata.stream_metadata import StreamRecord
from ...core.log.metadata.stream_store import StoredSegment, StreamStore
from ...core.protocol.errors import (
    CorruptionError,
    GapError,
    InvalidArgumentError,
    NoSuchObjectError,
    UnavailableError,
    UnknownOutcomeError,
)
from ...core.protocol.record_set import RecordSet, decode_entry
from ...core.protocol.segments import Residence, Segment
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.metadata_store import MetadataStore
from ...core.runtime.runtime import Runtime
from .catalog import read_manifest
from .content_digest import ContentDigest
from .manifest import CHAIN_START, Manifest, Part, manifest_key, segment_folder
from .part import PartWriter
from .rate_limiter import Pace
from .verify import verify_segment

PART_PAYLOAD_BYTES = 64 << 20
"""A part is closed at the first entry border at which its payloads reach this."""

_READ_ENTRIES = 500
_ATTEMPTS_MAX = 5


@dataclass(slots=True)
class _Totals:
    """What the segment's records amount to, found while they are read."""

    records: int = 0
    payload_bytes: int = 0
    first_txid: int = 0
    last_txid: int = 0

    def add(self, one: RecordSet) -> None:
        """Counts a data record set."""
        if self.records == 0:
            self.first_txid = one.first_txid
        self.last_txid = one.last_txid
        self.records += one.count
        self.payload_bytes += len(one.payload_view())


class SegmentArchiver:
    """Archives segments of one namespace into one cold store."""

    def __init__(
        self,
        runtime: Runtime,
        cold: ColdStore,
        ledgers: LedgerProvider,
        streams: StreamStore,
        *,
        pace: Pace | None = None,
    ) -> None:
        self._runtime = runtime
        self._cold = cold
        self._ledgers = ledgers
        self._streams = streams
        self._pace = pace or Pace(None)

    @classmethod
    def of_namespace(
        cls,
        namespace: str,
        cold: ColdStore,
        *,
        runtime: Runtime,
        ledgers: LedgerProvider,
        store: MetadataStore,
    ) -> "SegmentArchiver":
        """An archiver from what a client has."""
        return cls(runtime, cold, ledgers, StreamStore(store, namespace))

    async def archive(self, stream: str, lssn: int) -> Manifest:
        """Archives segment ``lssn``, whose predecessor is archived or begins the chain.

        Safe to repeat and to run twice at once. Raises InvalidArgumentError for a segment that is
        not there, not completed or not next in the chain, CorruptionError or GapError for one that
        cannot be read whole, and what the stores raise.
        """
        record, stored = await self._completed(stream, lssn)
        if await read_manifest(self._cold, self._streams.namespace, stream, lssn) is None:
            await self._previous_digest(stream, record, stored.segment)  # else the work is in vain
        return await self.commit(stream, await self.upload(stream, lssn))

    async def upload(self, stream: str, lssn: int) -> Manifest:
        """The first half: writes the parts and reads them back. Nothing is archived by that.

        Returns what ``commit`` takes; segments may be uploaded in any order and side by side, by
        several processes. If the segment is archived already, nothing is written. Raises as
        ``archive``.
        """
        record, stored = await self._completed(stream, lssn)
        found = await read_manifest(self._cold, self._streams.namespace, stream, lssn)
        if found is not None:
            return found
        try:
            return await self._write(stream, record, stored.segment)
        except CorruptionError:
            # Another archiver may have been first, and have swept our parts.
            winner = await read_manifest(self._cold, self._streams.namespace, stream, lssn)
            if winner is None:
                raise
            return winner

    async def commit(self, stream: str, uploaded: Manifest) -> Manifest:
        """The second half, in order of LSSN: makes the parts an archive, and says so.

        Returns the manifest that counts: another archiver may have been first. Raises as
        ``archive``.
        """
        lssn = uploaded.lssn
        record, stored = await self._completed(stream, lssn)
        await self._streams.check(stream, uploaded.stream_identity)
        manifest = await read_manifest(self._cold, self._streams.namespace, stream, lssn)
        if manifest is None:
            previous = await self._previous_digest(stream, record, stored.segment)
            manifest = await self._publish(replace(uploaded, previous_digest=previous))
        await self._sweep(manifest)
        if manifest.stream_identity != record.identity:
            raise CorruptionError(f"{stream}: the archive of segment {lssn} is another stream's")
        if stored.segment.residence is Residence.HOT:
            done = stored.segment.with_residence(Residence.HOT_AND_ARCHIVE)
            await self._streams.replace_segment(stream, stored, done)
        return manifest

    async def _completed(self, stream: str, lssn: int) -> tuple[StreamRecord, StoredSegment]:
        record, _ = await self._streams.record(stream)
        stored = await self._streams.segment(stream, lssn)
        if stored is None or not stored.segment.is_completed:
            raise InvalidArgumentError(f"{stream}: segment {lssn} is not completed")
        await self._streams.check(stream, record.identity)  # so both are of one stream
        return record, stored

    async def _write(self, stream: str, record: StreamRecord, segment: Segment) -> Manifest:
        attempt = self._runtime.random_bytes(8).hex()
        folder = segment_folder(self._streams.namespace, stream, segment.lssn)
        digest, totals = ContentDigest(), _Totals()
        parts: list[Part] = []
        async for writer in self._part_writers(segment, digest, totals):
            name = f"part-{attempt}-{len(parts):05d}.parquet"
            parts.append(await self._put_part(f"{folder}/{name}", name, writer))
        if totals.records != segment.record_count:
            raise GapError(
                f"{stream}: segment {segment.lssn} has {totals.records} records, its metadata says "
                f"{segment.record_count}"
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
            previous_digest=CHAIN_START,  # its link is made when it is committed
            parts=tuple(parts),
        )
        await verify_segment(self._cold, manifest, pace=self._pace)
        return manifest

    async def _previous_digest(self, stream: str, record: StreamRecord, segment: Segment) -> str:
        if segment.lssn == record.first_lssn:
            return CHAIN_START
        before = await read_manifest(self._cold, self._streams.namespace, stream, segment.lssn - 1)
        if before is None:
            raise InvalidArgumentError(
                f"{stream}: segment {segment.lssn - 1} must be archived before {segment.lssn}"
            )
        return before.content_digest

    async def _part_writers(
        self, segment: Segment, digest: ContentDigest, totals: _Totals
    ) -> AsyncIterator[PartWriter]:
        """Reads the segment's ledger whole, and yields a full writer for each part."""
        writer = PartWriter(segment.lssn)
        async for entry_id, record_sets in self._entries(segment):
            for one in record_sets:
                if not one.is_control:
                    digest.add(entry_id, one.slot, one.raw_crc)
                    totals.add(one)
            writer.add(entry_id, record_sets)
            if writer.payload_bytes >= PART_PAYLOAD_BYTES:
                yield writer
                writer = PartWriter(segment.lssn)
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
                await self._pace.spend(sum(len(entry.payload) for entry in entries))
                for entry in entries:
                    if entry.entry_id != next_id:
                        raise GapError(f"segment {segment.lssn}: entry {next_id} is missing")
                    yield entry.entry_id, decode_entry(entry.payload)
                    next_id += 1
        finally:
            await reader.aclose()

    async def _put_part(self, key: str, name: str, writer: PartWriter) -> Part:
        data = writer.finish()
        await self._pace.spend(len(data))
        await self._put(key, data)
        return writer.described(name, data)

    async def _publish(self, manifest: Manifest) -> Manifest:
        """Puts the manifest; when another archiver was first, its manifest counts."""
        key = manifest_key(manifest.namespace, manifest.stream, manifest.lssn)
        if await self._put(key, manifest.encode()):
            return manifest
        winner = await read_manifest(self._cold, manifest.namespace, manifest.stream, manifest.lssn)
        if winner is None or winner.content_digest != manifest.content_digest:
            raise CorruptionError(
                f"{manifest.stream}: segment {manifest.lssn} was archived with other content"
            )
        return winner

    async def _sweep(self, manifest: Manifest) -> None:
        """Deletes what other attempts left. The manifest is there, so no part becomes one of it."""
        folder = segment_folder(manifest.namespace, manifest.stream, manifest.lssn)
        named = {part.name for part in manifest.parts}
        for key in await self._cold.list(folder):
            name = key.removeprefix(f"{folder}/")
            if name.startswith("part-") and name not in named:
                await self._cold.delete(key)

    async def _put(self, key: str, data: bytes) -> bool:
        """``put_if_absent`` whose unknown outcomes are settled by looking."""
        for _ in range(_ATTEMPTS_MAX):
            try:
                return await self._cold.put_if_absent(key, data)
            except UnknownOutcomeError:
                try:
                    return await self._cold.get(key) == data
                except NoSuchObjectError:
                    continue
        raise UnavailableError(f"cold store: no clear answer for {key}")
