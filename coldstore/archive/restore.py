"""Makes a stream again from its archive alone: the same segments, positions and numbers.

Its segments have no ledger and are read from the archive; what is written then follows them. While
it is restored it counts as being deleted, so that nobody writes it; a repeat goes on where the last
attempt stopped. What archives do not hold is not restored: the policy, subscriptions, truncation
inside of what is still archived, and the numbers of producers (which may repeat a record that they
sent before the loss, but not one that they send after it).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ...core.log.metadata.stream_metadata import StreamHead, StreamRecord
from ...core.log.metadata.stream_store import StreamStore
from ...core.metadata import idempotent_writes
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import (
    CorruptionError,
    InvalidArgumentError,
    NodeExistsError,
    StreamExistsError,
)
from ...core.protocol.segments import FIRST_LSSN, NO_LEDGER, Residence, Segment
from ...core.protocol.segments import encode_segment as encoded
from ...core.runtime.metadata_store import Check, Create, MetadataStore, Put
from .manifest import Manifest


def check_chain(manifests: Sequence[Manifest]) -> None:
    """Returns if these are one stream's, without a hole. Raises CorruptionError."""
    for before, one in pairwise(manifests):
        if not one.follows(before):
            raise CorruptionError(
                f"{one.stream}: the archive of segment {one.lssn} does not follow {before.lssn}"
            )


async def restore_stream(
    store: MetadataStore, streams: StreamStore, manifests: Sequence[Manifest]
) -> None:
    """Makes the stream of these manifests, which are in order and all that its archive has.

    Raises StreamExistsError, CorruptionError (a broken chain), InvalidArgumentError (another
    namespace: an archive is read under its own name) and what the store raises; a repeat is safe.
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
        start=Dlsn(first.lssn, 0, 0),
        first_lssn=first.lssn,
        marked_lssn=first.lssn,
        is_deleting=True,
    )
    await streams.create(first.stream, restoring)
    record, version = await streams.record(first.stream)
    head, head_version = await streams.head(first.stream)
    if record != restoring or head.is_deleting:
        raise StreamExistsError(f"stream {first.stream} is there already")
    paths = streams.paths(first.stream)
    txid = 0
    for manifest in manifests:
        segment = _segment(manifest, txid)
        txid = segment.last_txid
        creation = Create(paths.segment(segment.lssn), encoded(segment))
        try:
            # It may arrive late, and is then for nobody else's stream.
            await idempotent_writes.transact(store, [Check(paths.stream, version)], creation)
        except NodeExistsError:
            stored = await streams.segment(first.stream, segment.lssn)
            if stored is None or stored.segment != segment:
                raise
    filled = Put(paths.head, StreamHead(last_lssn=last.lssn).encode(), expect=head_version)
    restored = replace(record, is_deleting=False)
    await idempotent_writes.transact(
        store, [filled], Put(paths.stream, restored.encode(), expect=version)
    )


def _segment(manifest: Manifest, txid_before: int) -> Segment:
    assert manifest.lssn >= FIRST_LSSN
    return Segment(
        lssn=manifest.lssn,
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
    )
