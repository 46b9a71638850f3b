"""Compares the segments of a stream with their ledgers, and repairs differences (RPR-23).

Every change is a compare-and-set on what was inspected, or a takeover that is conditional on the
head of the stream. Nothing is deleted.
"""

from dataclasses import replace

from ...core.ledger.client import LedgerClient
from ...core.log.metadata.ledger_policies import LedgerPolicies
from ...core.log.metadata.stream_metadata import StreamHead
from ...core.log.metadata.stream_store import StreamStore
from ...core.log.namespace import Namespace
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.errors import NoSuchLedgerError
from ...core.protocol.ledger_metadata import NO_ENTRY, LedgerMetadata
from ...core.protocol.segments import NO_LEDGER, Residence, Segment
from ...core.runtime.metadata_store import MetadataStore
from ...core.runtime.tasks import run_all
from ..ledger_scan import AT_ONCE
from .segment_faults import Remedy, SegmentFault, find_faults


class SegmentRepairer:
    """The inspection and repair of the streams of one namespace."""

    def __init__(self, store: MetadataStore, client: LedgerClient, namespace: Namespace) -> None:
        self._namespace = namespace
        self._streams = StreamStore(store, namespace.name)
        self._ledgers = LedgerStore(store)
        self._policies = LedgerPolicies(store)
        self._client = client

    async def inspect(self, stream: str) -> list[SegmentFault]:
        """Return the faults of a stream. They may be transient if a writer is rolling.

        Raises NoSuchStreamError, CorruptionError, MetadataUnavailableError.
        """
        nodes = await self._streams.everything(stream)
        ledgers: dict[int, LedgerMetadata | None] = {}
        wanted = [s.ledger_id for s in nodes.segments if s.ledger_id != NO_LEDGER]
        for start in range(0, len(wanted), AT_ONCE):
            batch = wanted[start : start + AT_ONCE]
            found = await run_all([self._read(each) for each in batch], "read ledger metadata")
            ledgers.update(zip(batch, found, strict=True))
        name = (self._namespace.name, stream)
        return find_faults(name, nodes.record, nodes.head, nodes.segments, ledgers)

    async def _read(self, ledger_id: int) -> LedgerMetadata | None:
        try:
            return (await self._ledgers.read(ledger_id))[0]
        except NoSuchLedgerError:
            return None

    async def head(self, stream: str) -> StreamHead:
        """Return the head of a stream, for ``repair``. Raises NoSuchStreamError."""
        return (await self._streams.head(stream))[0]

    async def repair_all(self, stream: str) -> list[SegmentFault]:
        """Repair the faults of a stream that have a remedy, and return those that were repaired.

        A takeover completes all segments in progress, so nothing is repaired after it. Safe to
        repeat. Raises as ``repair``.
        """
        head = await self.head(stream)
        repaired = []
        for fault in await self.inspect(stream):
            if await self.repair(stream, fault, head):
                repaired.append(fault)
            if fault.remedy is Remedy.TAKE_OVER:
                break
        return repaired

    async def repair(self, stream: str, fault: SegmentFault, head: StreamHead) -> bool:
        """Repair a fault that was found when the stream had this head. Safe to repeat.

        Returns False if it has no remedy, or if the segment was changed meanwhile. Raises
        StreamLostError if the stream was claimed meanwhile, and what recovery and the metadata
        store raise.
        """
        if fault.remedy is Remedy.NONE:
            return False
        if fault.remedy is Remedy.TAKE_OVER:
            await self._namespace.take_over(stream, expect=head)
            return True
        if fault.remedy is Remedy.CLOSE_LEDGER:
            metadata, _ = await self._ledgers.read(fault.ledger_id)
            wanted_r = await self._policies.r_of(metadata)
            await self._client.recover(fault.ledger_id, metadata.password, min_regions=wanted_r)
            return True
        stored = await self._streams.segment(stream, fault.lssn, head.stream_id)
        if stored is None or stored.segment.ledger_id != fault.ledger_id:
            return False
        changed = await self._changed(stream, stored.segment, fault.remedy)
        return await self._streams.replace_segment(stream, stored, changed)

    async def _changed(self, stream: str, segment: Segment, remedy: Remedy) -> Segment:
        """Return a completed segment as it should be stored."""
        if remedy is Remedy.READ_ARCHIVE:
            return segment.with_residence(Residence.ARCHIVE)
        if remedy is Remedy.ADOPT_LENGTH:
            metadata, _ = await self._ledgers.read(segment.ledger_id)
            return replace(segment, length_bytes=metadata.length)
        assert remedy is Remedy.ADOPT_END, remedy
        end = await self._namespace.read_end(stream, segment)
        assert end.last_entry_id >= segment.last_entry_id, "a segment is never shortened (RPR-23)"
        snapshot = (segment.producers_lssn, segment.producers_entry)
        if end.producers_entry != NO_ENTRY:
            snapshot = (segment.lssn, end.producers_entry)
        return replace(
            segment,
            last_entry_id=end.last_entry_id,
            length_bytes=end.length_bytes,
            record_count=end.record_count,
            last_txid=max(segment.last_txid, end.last_txid),
            ends_stream=segment.ends_stream or end.ends_stream,
            producers_lssn=snapshot[0],
            producers_entry=snapshot[1],
        )
