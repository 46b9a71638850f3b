"""Restores a stream from its archive alone, with the same segments, positions and sequence ids.

The restored segments have no ledger and are read from the archive (rule STR-22); new records follow
them. During the restore the stream is marked as being deleted, so that no writer opens it. A
repeated restore continues where the previous attempt stopped.

Archives do not hold everything. The following is not restored: subscriptions, a truncation within
the archived segments, and the deduplication table. A numbered producer can therefore duplicate a
record that it sent before the loss, but no record that it sends afterwards.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ...core.log.metadata.stream_metadata import StreamRecord
from ...core.log.metadata.stream_store import StreamStore
from ...core.log.policy import StreamPolicy
from ...core.metadata import idempotent_writes
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import (
    CorruptionError,
    InvalidArgumentError,
    NodeExistsError,
    NoSuchStreamError,
    StreamExistsError,
)
from ...core.protocol.segments import FIRST_LSSN, NO_LEDGER, Residence, Segment
from ...core.protocol.segments import encode_segment as encoded
from ...core.runtime.metadata_store import Check, Create, MetadataStore, Put
from ..archive.manifest import Manifest


def check_chain(manifests: Sequence[Manifest]) -> None:
    """Check that the manifests form one chain without a gap. Raises CorruptionError otherwise."""
    for previous, manifest in pairwise(manifests):
        if not manifest.follows(previous):
            raise CorruptionError(
                f"stream {manifest.stream}: the archive of segment {manifest.lssn} does not follow "
                f"that of segment {previous.lssn}"
            )


def archived_policy(manifests: Sequence[Manifest]) -> StreamPolicy | None:
    """Return the policy of the stream, as the newest manifest has it; None if none has it.

    It does not truncate by age or by subscriptions: what was restored would be deleted again.
    """
    known = [manifest.policy for manifest in manifests if manifest.policy is not None]
    if not known:
        return None
    policy = StreamPolicy.from_fields(known[-1])
    return replace(policy, retention_ms=None, truncates_by_subscriptions=False)


async def check_name_is_free(streams: StreamStore, stream: str) -> None:
    """Raise StreamExistsError if there is a stream of the name whose restore is not in progress."""
    try:
        record, _ = await streams.record(stream)
        head, _ = await streams.head(stream)
    except NoSuchStreamError:
        return
    if not record.is_deleting or head.is_deleting:
        raise StreamExistsError(f"stream {stream} already exists")


async def restore_stream(
    store: MetadataStore,
    streams: StreamStore,
    manifests: Sequence[Manifest],
    policy: StreamPolicy | None = None,
) -> None:
    """Restore the stream of ``manifests``, which are consecutive and in order. Safe to repeat.

    Without ``policy`` it follows the policy of its namespace. Raises StreamExistsError,
    CorruptionError (the chain is broken), InvalidArgumentError (the archive is of another
    namespace; archives are read under their own namespace) and the errors of the metadata store.
    """
    check_chain(manifests)
    first, last = manifests[0], manifests[-1]
    if first.namespace != streams.namespace:
        raise InvalidArgumentError(
            f"the archive is of namespace {first.namespace}, not {streams.namespace}"
        )
    restoring = StreamRecord(
        first.stream_identity,
        first.created_ms,
        policy,
        start=Dlsn(first.lssn, 0, 0),
        first_lssn=first.lssn,
        purging_lssn=first.lssn,
        marked_lssn=first.lssn,
        is_deleting=True,
    )
    await streams.create(first.stream, restoring)
    record, version = await streams.record(first.stream)
    head, head_version = await streams.head(first.stream)
    if record != restoring or head.is_deleting:
        raise StreamExistsError(f"stream {first.stream} already exists")
    paths = streams.paths(first.stream)
    txid = 0
    for manifest in manifests:
        segment = _segment(manifest, txid)
        txid = segment.last_txid
        creation = Create(paths.segment(segment.lssn), encoded(segment))
        try:
            # The check keeps a late request from changing a successor of the stream (STR-23).
            await idempotent_writes.transact(store, [Check(paths.stream, version)], creation)
        except NodeExistsError:
            stored = await streams.segment(first.stream, segment.lssn, segment.stream_id)
            if stored is None or stored.segment != segment:
                raise
    filled = Put(paths.head, replace(head, last_lssn=last.lssn).encode(), expect=head_version)
    restored = replace(record, is_deleting=False)
    await idempotent_writes.transact(
        store, [filled], Put(paths.stream, restored.encode(), expect=version)
    )


def _segment(manifest: Manifest, txid_before: int) -> Segment:
    assert manifest.lssn >= FIRST_LSSN
    return Segment(
        lssn=manifest.lssn,
        stream_id=manifest.stream_id,
        ledger_id=NO_LEDGER,
        epoch=0,
        created_ms=manifest.created_ms,
        is_completed=True,
        completed_ms=manifest.completed_ms,
        last_entry_id=manifest.last_entry_id,
        last_txid=max(txid_before, manifest.last_txid),
        record_count=manifest.record_count,
        length_bytes=manifest.payload_bytes,
        start_sequence_id=manifest.start_sequence_id,
        ends_stream=manifest.ends_stream,
        residence=Residence.ARCHIVE,
        doubt=manifest.doubt,
        archive_link=manifest.link,
    )
