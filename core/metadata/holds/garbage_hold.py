"""The garbage hold: while a store has it, nothing is deleted because the store lacks its metadata.

A store that was restored or rebuilt may not know ledgers that bookies hold (rule BAK-9). The hold
is written together with its first content, and removed by an operator.

::

    /ledgers/rhumbline/garbage-hold    GarbageHold
"""

from dataclasses import asdict, dataclass

from ...protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ...runtime.metadata_store import MetadataReads, MetadataStore
from .. import idempotent_writes
from ..cluster_layout import ROOT, Paths

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class GarbageHold:
    """The reason for a hold, ``restore`` or ``rebuild``, and its time of day in ms."""

    reason: str
    since_ms: int

    def encode(self) -> bytes:
        """Encode the value of the node."""
        return encode_metadata_record(_FORMAT, asdict(self))

    @classmethod
    def decode(cls, data: bytes) -> "GarbageHold":
        """Decode the value of the node. Raises CorruptionError, ForeignDataError."""
        fields = decode_metadata_record(
            "the garbage hold", data, version=_FORMAT, fields={"reason": str, "since_ms": int}
        )
        return cls(**fields)


async def read_hold(store: MetadataReads, root: str = ROOT) -> GarbageHold | None:
    """Return the hold of a store. Raises MetadataUnavailableError, CorruptionError."""
    (value,) = await store.get_all([Paths(root).garbage_hold])
    return None if value is None else GarbageHold.decode(value.data)


async def release_hold(store: MetadataStore, root: str = ROOT) -> None:
    """Remove the hold. Safe to repeat. Raises MetadataUnavailableError, IndeterminateError."""
    await idempotent_writes.discard(store, Paths(root).garbage_hold)
