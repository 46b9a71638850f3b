"""The parts of one metadata store that a process uses: bookies, ledgers and namespaces.

Every metadata store is a complete view of a cluster, so a process that uses several of them has one
``StoreClient`` for each, and nothing below it knows of the others.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from ..core.ledger.client import LedgerClient
from ..core.ledger.config import LedgerConfig
from ..core.metadata.cluster_layout import instance_id
from ..core.metadata.ledger_ids import GLOBAL_STORE
from ..core.metadata.ledger_store import LedgerStore
from ..core.metadata.regional_store_records import (
    RegionalStoreRecord,
    open_regional_store,
    read_own_record,
)
from ..core.protocol.bookie_id import Region
from ..core.protocol.errors import WrongClusterError
from ..core.runtime.metadata_store import MetadataStore
from ..core.runtime.runtime import Runtime
from ..placement.region_aware import RegionAwarePlacement
from ..regions.cached_states import CachedStates
from ..regions.drain_writers import WriterDrainer
from ..regions.follow_policies import PolicyFollower
from ..regions.region_reads import ReadSettings, RegionReads
from ..regions.repair.task_store import TaskStore
from ..regions.repair.under_replication_reports import UnderReplicationReports
from ..regions.steered_directory import SteeredDirectory


@dataclass(frozen=True, slots=True)
class StoreClientSettings:
    """The settings that all store clients of a process share."""

    runtime: Runtime
    placement: RegionAwarePlacement
    region: Region | None
    ledger: LedgerConfig
    reads: ReadSettings


class StoreClient:
    """The directory, the ledgers and the ledger metadata of one metadata store.

    ``open`` opens it; ``aclose`` closes it, but not the store.
    """

    def __init__(
        self,
        store: MetadataStore,
        settings: StoreClientSettings,
        *,
        store_region: Region | None,
        instance: str,
        number: int,
    ) -> None:
        self.store = store
        self.store_region = store_region
        """The region whose store it is; None for the global store."""
        self.instance_id = instance
        """Id of the cluster."""
        self._closing = AsyncExitStack()
        self.directory = SteeredDirectory(store)
        self._closing.callback(self.directory.close)
        cached_states = CachedStates(self.directory.states)
        self._closing.push_async_callback(cached_states.aclose)
        runtime, region = settings.runtime, settings.region
        self.reads = RegionReads(
            region,
            runtime.random,
            settings.reads,
            rack_of=self.directory.rack_of,
            is_offline=cached_states.is_offline,
        )
        self.ledger_store = LedgerStore(store, number=number)
        reports = UnderReplicationReports(TaskStore(store), self.directory, runtime.clock)
        self.ledgers = LedgerClient(
            runtime,
            self.ledger_store,
            self.directory,
            settings.placement,
            settings.ledger,
            region,
            reads=self.reads,
            on_missing_range=reports,
        )
        self._closing.push_async_callback(self.ledgers.aclose)
        self._closing.push_async_callback(reports.aclose)
        drainer = WriterDrainer(self.directory.states, self.ledgers)
        self._closing.push_async_callback(drainer.aclose)
        follower = PolicyFollower(store, self.ledgers)
        self._closing.push_async_callback(follower.aclose)

    @classmethod
    async def open(
        cls,
        store: MetadataStore,
        settings: StoreClientSettings,
        store_region: Region | None = None,
    ) -> "StoreClient":
        """Return a client of ``store``, which must be the store of ``store_region`` if it is given.

        Raises WrongClusterError, MetadataUnavailableError.
        """
        record: RegionalStoreRecord | None
        if store_region is not None:
            record = await open_regional_store(store, store_region)
        else:
            record = await read_own_record(store)  # a command may work on a regional store alone
        number = GLOBAL_STORE if record is None else record.number
        store_region = None if record is None else record.region
        try:
            instance = await instance_id(store)
        except WrongClusterError as error:
            raise WrongClusterError(f"{error}; `rhumbline cluster init` initialises one") from error
        return cls(store, settings, store_region=store_region, instance=instance, number=number)

    def statistics(self) -> dict[str, Any]:
        """Return the counters and latencies of the ledgers and reads."""
        return {"ledgers": self.ledgers.statistics(), "reads": self.reads.statistics()}

    async def aclose(self) -> None:
        """Close the connections. Safe to repeat."""
        await self._closing.aclose()
