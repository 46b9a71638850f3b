"""The parts of the cluster's metadata stores that commands about bookies and regions use."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from ...backends.open_store import open_store
from ...core.metadata.ledger_store import LedgerStore
from ...core.metadata.regional_store_records import open_regional_store, read_regional_stores
from ...core.protocol.bookie_id import BookieId, bookie_name
from ...core.protocol.errors import InvalidArgumentError
from ...core.runtime.metadata_store import MetadataStore
from ...regions.repair.drain_records import DrainRecords
from ...regions.repair.task_store import TaskStore
from ...regions.states import PlacementStates
from ...regions.steered_directory import SteeredDirectory
from ..cluster_store import cluster_store
from ..options import CommandSession


@dataclass(frozen=True, slots=True)
class Cluster:
    """The parts of the metadata store that these commands use."""

    store: MetadataStore
    directory: SteeredDirectory
    ledgers: LedgerStore
    tasks: TaskStore
    drains: DrainRecords

    async def find(self, name: str) -> BookieId:
        """Return the bookie with this id, or with this name if it is unique."""
        known = await self.directory.all_known()
        found = [bookie for bookie in known if name in (bookie, bookie_name(bookie))]
        if len(found) != 1:
            candidates = ", ".join(found or known) or "none"
            reason = "several bookies have the name" if found else "unknown bookie"
            raise InvalidArgumentError(f"{reason} {name}; the bookies are: {candidates}")
        return found[0]

    async def set(self, change: Callable[[PlacementStates], PlacementStates]) -> None:
        """Change the stored states of bookies and regions."""
        await self.directory.states.change(change)


@asynccontextmanager
async def opened(session: CommandSession) -> AsyncIterator[Cluster]:
    """Open the cluster that the options select."""
    async with cluster_store(session) as store:
        cluster = cluster_of(store)
        try:
            yield cluster
        finally:
            cluster.directory.close()


@asynccontextmanager
async def opened_stores(session: CommandSession) -> AsyncIterator[tuple[Cluster, ...]]:
    """Open the selected store of the cluster, and the regional stores of the settings after it.

    The states of a bookie are in each store that knows the bookie (rule RPR-21). Raises
    MetadataUnavailableError if one of them cannot be reached: the command is repeated later, or
    given for the other stores by --metadata.
    """
    settings = session.settings.cluster
    async with AsyncExitStack() as closing:
        clusters = [await closing.enter_async_context(opened(session))]
        for region, uri in settings.regional_metadata:
            if uri != settings.metadata:
                store = await open_store(uri, timeout_ms=settings.metadata_timeout_ms)
                closing.push_async_callback(store.close)
                await open_regional_store(store, region)
                clusters.append(cluster_of(store))
                closing.callback(clusters[-1].directory.close)
        yield tuple(clusters)


async def unread_regions(session: CommandSession, cluster: Cluster) -> list[str]:
    """Return the regions whose metadata stores are not in the settings, so that none is read.

    ``cluster`` is the selected store; a regional one knows of no others.
    """
    configured = dict(session.settings.cluster.regional_metadata)
    return sorted(set(await read_regional_stores(cluster.store)) - configured.keys())


def cluster_of(store: MetadataStore) -> Cluster:
    """Return the parts of a store. The caller closes its directory."""
    return Cluster(
        store, SteeredDirectory(store), LedgerStore(store), TaskStore(store), DrainRecords(store)
    )
