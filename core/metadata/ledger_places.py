"""The places of ledgers whose metadata was moved to another metadata store (rule LED-28).

A ledger keeps its id when the namespace of its stream moves, so its metadata may be in another
store than the one that issued the id, its *home*. A record of each of the two stores then says
which store has the metadata:

::

    /ledgers/rhumbline/moved-ledgers/<id>    the number of the store that has the metadata

The home keeps this record for ever, also after the ledger has come back or was deleted. The other
store has it from before the move is committed, together with the metadata, and loses it only when
the ledger leaves.
"""

from dataclasses import dataclass

from ..protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ..runtime.metadata_store import MetadataReads, Version
from . import idempotent_writes
from .cluster_layout import Paths

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """The number of the store that has the metadata of a ledger, and the version of the record."""

    number: int
    version: Version


def encode_place(number: int) -> bytes:
    """Encode the record of a ledger that is in the store with this number."""
    return encode_metadata_record(_FORMAT, {"store": number})


def decode_place(ledger_id: int, data: bytes) -> int:
    """Return the number of the store that has the ledger. Raises CorruptionError."""
    fields = decode_metadata_record(
        f"the place of ledger {ledger_id}", data, version=_FORMAT, fields={"store": int}
    )
    return int(fields["store"])


async def read_place(store: MetadataReads, paths: Paths, ledger_id: int) -> LedgerPlace | None:
    """Return what ``store`` says about the place of a ledger; None without a record.

    Raises MetadataUnavailableError, CorruptionError.
    """
    value = await idempotent_writes.read_if_exists(store, paths.place(ledger_id))
    if value is None:
        return None
    return LedgerPlace(decode_place(ledger_id, value.data), value.version)
