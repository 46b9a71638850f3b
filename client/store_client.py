"""The parts of one metadata store that a process uses: bookies, ledgers and namespaces.

Every metadata store is a complete view of a cluster, so a process that uses several of them has one
``StoreClient`` for each, and nothing below it knows of the others.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from ..core.ledger.client import LedgerClient, PasswordOf, no_password
from ..core.ledger.config import LedgerConfig
from ..core.metadata.cluster_layout import instance_id
from ..core.metadata.ledger_store import LedgerStore
from ..core.metadata.measured_store import MeasuredStore
from ..core.metadata.read_only_store import WAIT_MS, ReadOnlyStore
from ..core.metadata.regional_store_records import open_regional_store
from ..core.protocol.bookie_id import Region
from ..core.protocol.errors import WrongClusterError
from ..core.runtime.metadata_store import MetadataStore
from ..core.runtime.runtime import Runtime
from ..placement.region_aware import RegionAwarePlacement
from ..regions.cached_states import CachedStates
from ..regions.drain_writers import WriterDrainer
from ..regions.follow_policies import PolicyFollower
from ..regions.ownerless.roll_requests import RollRequests
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
    stale_after_ms: int = WAIT_MS
    """Time without a response after which readers are served from old metadata."""
    password_of: PasswordOf = no_password
    """Returns the passwords of new ledgers."""


class StoreClient:
    """The directory, the ledgers and the ledger metadata of one metadata store.

    ``open`` opens it; ``aclose`` closes it, but not the store.
    """

    def __init__(
        self,
        store: MeasuredStore,
        reads: ReadOnlyStore,
        settings: StoreClientSettings,
        *,
        store_region: Region | None,
        instance: str,
        number: int | None,
    ) -> None:
        self.store: MetadataStore = store
        self._measured = store
        self.metadata_reads = reads
        """The metadata as readers see it, with its counters."""
        self.store_region = store_region
        """The region whose store it is; None for the global store."""
        self.instance_id = instance
        """Id of the cluster."""
        self._closing = AsyncExitStack()
        self._closing.push_async_callback(reads.aclose)
        self.directory = SteeredDirectory(store, reads=reads)
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
        self.ledger_store = LedgerStore(store, number=number, reads=reads)
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
            password_of=settings.password_of,
        )
        self._closing.push_async_callback(self.ledgers.aclose)
        self._closing.push_async_callback(reports.aclose)
        drainer = WriterDrainer(self.directory.states, RollRequests(store), self.ledgers)
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
        measured = MeasuredStore(store)
        number = None  # a command may work on a regional store alone
        if store_region is not None:
            number = (await open_regional_store(measured, store_region)).number
        reads = ReadOnlyStore(measured, wait_ms=settings.stale_after_ms)
        try:
            instance = await instance_id(reads, stale_ok=True)
        except BaseException as error:
            await reads.aclose()
            if isinstance(error, WrongClusterError):
                message = f"{error}; `rhumbline cluster init` initialises one"
                raise WrongClusterError(message) from error
            raise
        return cls(
            measured, reads, settings, store_region=store_region, instance=instance, number=number
        )

    def statistics(self) -> dict[str, Any]:
        """Return the counters and latencies of the ledgers, the reads and the metadata."""
        return {
            "ledgers": self.ledgers.statistics(),
            "reads": self.reads.statistics(),
            "metadata": {**self.metadata_reads.statistics(), **self._measured.statistics()},
        }

    async def aclose(self) -> None:
        """Close the connections. Safe to repeat."""
        await self._closing.aclose()
