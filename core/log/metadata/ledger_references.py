"""Decides whether a segment references a ledger, or ever will (rule STR-11).

A writer creates the ledger of a segment before it publishes the segment. If the writer dies in
between, or another writer takes over, an empty ledger without a segment is left behind. This is
certain once the segment number is bound to another ledger or the stream was deleted. Before that,
the writer may still publish the ledger. Numbers are bound permanently, so the decision is final.
"""

from enum import Enum

from ...protocol.errors import CorruptionError, InvalidArgumentError, NoSuchStreamError
from ...protocol.ledger_metadata import LSSN_KEY, NAMESPACE_KEY, STREAM_KEY, LedgerMetadata
from ...runtime.metadata_store import MetadataStore
from .stream_store import StreamStore


class LedgerReference(Enum):
    """The relation of a ledger to the segments of streams."""

    REFERENCED = "segment"
    UNDECIDED = "open"
    """No segment references it yet, or it was not made for a valid stream and segment number."""
    UNREFERENCED = "nobody"
    """No segment references it or ever will."""


async def reference_of(store: MetadataStore, metadata: LedgerMetadata) -> LedgerReference:
    """Return how segments relate to the ledger. Raises MetadataUnavailableError."""
    custom = metadata.custom
    try:
        namespace, stream = custom[NAMESPACE_KEY].decode(), custom[STREAM_KEY].decode()
        lssn = int(custom[LSSN_KEY])
        streams = StreamStore(store, namespace)
        head, _ = await streams.head(stream)
        if lssn > head.last_lssn:
            return LedgerReference.UNDECIDED
        # Every number up to the head's last LSSN has a segment, unless it was purged.
        # If another stream has the name by now, it was created after the ledger.
        stored = await streams.segment(stream, lssn, head.stream_id)
    except NoSuchStreamError:
        return LedgerReference.UNREFERENCED
    except (KeyError, ValueError, InvalidArgumentError, CorruptionError):
        return LedgerReference.UNDECIDED
    if stored is not None and stored.segment.ledger_id == metadata.ledger_id:
        return LedgerReference.REFERENCED
    return LedgerReference.UNREFERENCED
