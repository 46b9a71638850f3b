"""The records of regional metadata stores and of their numbers (rule LED-27).

::

    /ledgers/rhumbline/regional-stores    in the global store: number and token of each region's
    /ledgers/rhumbline/store              in a regional store: its region, number and token
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..protocol.bookie_id import Region, check_region
from ..protocol.errors import WrongClusterError
from ..protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ..runtime.metadata_store import MetadataStore, Version
from . import idempotent_writes
from .cluster_layout import ROOT, Paths
from .ledger_ids import GLOBAL_STORE

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class RegionalStoreRecord:
    """The identity of a regional store. ``number`` is ``GLOBAL_STORE`` until it has joined."""

    region: Region
    token: str
    number: int = GLOBAL_STORE

    def encode(self) -> bytes:
        """Encode the value of the node."""
        fields = {"region": self.region, "token": self.token, "number": self.number}
        return encode_metadata_record(_FORMAT, fields)

    @classmethod
    def decode(cls, data: bytes) -> "RegionalStoreRecord":
        """Decode the value of the node. Raises CorruptionError, ForeignDataError."""
        fields = decode_metadata_record(
            "the record of a regional store",
            data,
            version=_FORMAT,
            fields={"region": str, "token": str, "number": int},
        )
        return cls(check_region(fields["region"]), fields["token"], fields["number"])


async def read_regional_stores(
    store: MetadataStore, root: str = ROOT
) -> dict[Region, RegionalStoreRecord]:
    """Return the regional stores that the global ``store`` issued numbers to, by region.

    Raises MetadataUnavailableError, CorruptionError.
    """
    return (await read_issued(store, root))[0]


async def read_own_record(store: MetadataStore, root: str = ROOT) -> RegionalStoreRecord | None:
    """Return the record of a regional store; None if ``store`` is a global one.

    Raises MetadataUnavailableError, CorruptionError.
    """
    value = await idempotent_writes.read_if_exists(store, Paths(root).own_store)
    return None if value is None else RegionalStoreRecord.decode(value.data)


async def open_regional_store(
    store: MetadataStore, region: str, root: str = ROOT
) -> RegionalStoreRecord:
    """Return the record of the regional store, which must have joined for ``region``.

    Raises WrongClusterError if it has not or belongs to another region, MetadataUnavailableError.
    """
    record = await read_own_record(store, root)
    if record is None:
        raise WrongClusterError(
            f"{store.uri} is not the metadata store of region {region}: join it to the cluster "
            "with `rhumbline cluster join-store`"
        )
    if record.region != region:
        raise WrongClusterError(
            f"{store.uri} is the metadata store of region {record.region}, not of {region}"
        )
    if record.number == GLOBAL_STORE:
        raise WrongClusterError(
            f"{store.uri} has not joined the cluster completely: repeat `rhumbline cluster "
            "join-store`"
        )
    return record


async def read_store_number(store: MetadataStore, root: str = ROOT) -> int:
    """Return the number of a regional store that has joined, or of the global store.

    Raises WrongClusterError, MetadataUnavailableError, CorruptionError.
    """
    record = await read_own_record(store, root)
    if record is None:
        return GLOBAL_STORE
    return (await open_regional_store(store, record.region, root)).number


async def read_issued(
    store: MetadataStore, root: str = ROOT
) -> tuple[dict[Region, RegionalStoreRecord], Version | None]:
    """Return the same with the version of the record; None if there is none yet."""
    value = await idempotent_writes.read_if_exists(store, Paths(root).regional_stores)
    if value is None:
        return {}, None
    return decode_issued(value.data), value.version


def decode_issued(data: bytes) -> dict[Region, RegionalStoreRecord]:
    """Decode the value of the global store's record. Raises CorruptionError, ForeignDataError."""
    fields = decode_metadata_record(
        "the record of all regional stores", data, version=_FORMAT, fields={"stores": dict}
    )
    found = {}
    for region, (number, token) in fields["stores"].items():
        found[check_region(region)] = RegionalStoreRecord(check_region(region), token, number)
    return found


def encode_issued(issued: Mapping[Region, RegionalStoreRecord]) -> bytes:
    """Encode the value of the global store's record."""
    stores = {region: [record.number, record.token] for region, record in sorted(issued.items())}
    return encode_metadata_record(_FORMAT, {"stores": stores})
