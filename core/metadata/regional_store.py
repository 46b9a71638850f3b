"""The metadata store of one region, as its bookies use it."""

from dataclasses import dataclass

from ..protocol.bookie_id import Region
from ..protocol.errors import WrongClusterError
from ..runtime.metadata_store import MetadataStore
from .bookie_directory import BookieDirectory
from .cluster_layout import ROOT, instance_id
from .ledger_store import LedgerStore
from .regional_store_records import RegionalStoreRecord, open_regional_store


@dataclass(frozen=True, slots=True)
class RegionalStore:
    """The ledgers of a regional store, and its view of the bookies. ``close`` ends its watch."""

    record: RegionalStoreRecord
    ledgers: LedgerStore
    directory: BookieDirectory
    store: MetadataStore
    root: str = ROOT

    @classmethod
    async def open(cls, store: MetadataStore, region: Region, root: str = ROOT) -> "RegionalStore":
        """Return the store of ``region``. Raises as ``open_regional_store``."""
        record = await open_regional_store(store, region, root)
        ledgers = LedgerStore(store, root, number=record.number)
        return cls(record, ledgers, BookieDirectory(store, root), store, root)

    async def instance_id(self) -> str:
        """Return the cluster's id, if the store is still the one that was opened.

        All stores of a cluster have the same instance id, so it does not show that an address leads
        to another of them now. Raises WrongClusterError, MetadataUnavailableError.
        """
        found = await open_regional_store(self.store, self.record.region, self.root)
        if found != self.record:
            raise WrongClusterError(
                f"{self.store.uri} is another store of region {found.region} now: its number is "
                f"{found.number}, not {self.record.number}"
            )
        return await instance_id(self.store, self.root)

    def close(self) -> None:
        """Stop watching. Safe to repeat."""
        self.directory.close()
