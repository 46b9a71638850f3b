"""The bookie directory without the bookies that operators closed to new data (PLC-14, PLC-18)."""

from ..core.metadata.bookie_directory import BookieDirectory
from ..core.metadata.cluster_layout import ROOT
from ..core.protocol.bookie_id import BookieId
from ..core.protocol.placement import BookieInfo
from ..core.runtime.metadata_store import MetadataReads, MetadataStore
from .states import PlacementStateStore


class SteeredDirectory(BookieDirectory):
    """A ``BookieDirectory`` whose ``snapshot`` omits bookies that are closed to new data.

    The states are read after the bookies, with each snapshot, so a choice that starts after a
    command returned obeys it. A choice that began before may still be recorded, within
    ``metadata_timeout_ms`` of the ledger client.
    """

    __slots__ = ("states",)

    def __init__(
        self, store: MetadataStore, root: str = ROOT, *, reads: MetadataReads | None = None
    ) -> None:
        super().__init__(store, root, reads=reads)
        self.states = PlacementStateStore(store, root)

    async def snapshot(self) -> list[BookieInfo]:
        """Return the writable bookies that are open to new data, by id. Raises as
        ``states.read``."""
        found = await super().snapshot()
        return (await self.states.read()).open_to_new(found)

    async def everything(self) -> list[BookieInfo]:
        """Return all writable bookies by id, including those closed to new data."""
        return await super().snapshot()

    async def configured(self) -> list[BookieInfo]:
        """Return every bookie that the cluster knows by id, registered or not."""
        return [
            BookieInfo(bookie, await self.region_of(bookie)) for bookie in await self.all_known()
        ]

    def rack_of(self, bookie: BookieId) -> str | None:
        """Return the rack of a bookie from the cached registrations; None if it is not cached."""
        known = self._registrations.get(bookie)
        return None if known is None else known.location[1]
