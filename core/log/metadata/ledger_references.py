"""Which ledgers no segment will ever name.

A writer makes the ledger of a segment before it publishes the segment. If it dies in between, or is
overtaken by another writer, the ledger stays behind: empty, and nobody's. That is certain once its
segment number is bound to another ledger, or its stream is gone; before, its writer may still
publish it. Numbers are bound for good, so what was found once stays true.
"""

from enum import Enum

from ...protocol.errors import CorruptionError, InvalidArgumentError, NoSuchStreamError
from ...protocol.ledger_metadata import LedgerMetadata
from ...runtime.metadata_store import MetadataStore
from ..write.segment_chain import LSSN_KEY, NAMESPACE_KEY, STREAM_KEY
from .stream_store import StreamStore


class Reference(Enum):
    """Who names a ledger."""

    SEGMENT = "segment"
    OPEN = "open"
    """Nobody yet, or it is not known: it was not made for a stream, or its names make no sense."""
    NOBODY = "nobody"
    """And nobody ever will."""


async def reference_of(store: MetadataStore, metadata: LedgerMetadata) -> Reference:
    """Who names the ledger. Raises MetadataUnavailableError."""
    custom = metadata.custom
    try:
        namespace, stream = custom[NAMESPACE_KEY].decode(), custom[STREAM_KEY].decode()
        lssn = int(custom[LSSN_KEY])
        streams = StreamStore(store, namespace)
        head, _ = await streams.head(stream)
        if lssn > head.last_lssn:
            return Reference.OPEN
        # A number that the head has reached has its segment, unless that was purged.
        stored = await streams.segment(stream, lssn)
    except NoSuchStreamError:
        return Reference.NOBODY
    except (KeyError, ValueError, InvalidArgumentError, CorruptionError):
        return Reference.OPEN
    if stored is not None and stored.segment.ledger_id == metadata.ledger_id:
        return Reference.SEGMENT
    return Reference.NOBODY
