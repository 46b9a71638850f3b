"""The bookie directory without the bookies that operators closed to new data (PLC-14, PLC-18)."""

from ..core.metadata.bookie_directory import BookieDirectory
from ..core.metadata.cluster_layout import ROOT
from ..core.metadata.declared_regions import read_declared_regions
from ..core.protocol.bookie_id import BookieId, Region
from ..core.protocol.placement import BookieInfo
from ..core.runtime.metadata_store import MetadataReads, MetadataStore
from ..core.runtime.primitives.shared_read import SharedRead
from ..core.runtime.tasks import run_both
from .states import PlacementStateStore


class SteeredDirectory(BookieDirectory):
    """A ``BookieDirectory`` whose ``snapshot`` omits bookies that are closed to new data.

    The states are read after each call of ``snapshot``, so a choice that starts after a command
    returned obeys it; calls that wait together share what is read. A choice that began before may
    still be recorded, within ``metadata_timeout_ms`` of the ledger client.
    """

    __slots__ = ("_open_to_new", "_root", "states")

    def __init__(
        self, store: MetadataStore, root: str = ROOT, *, reads: MetadataReads | None = None
    ) -> None:
        super().__init__(store, root, reads=reads)
        self._root = root
        self.states = PlacementStateStore(store, root)
        self._open_to_new = SharedRead(self._read_open_to_new)

    async def snapshot(self) -> list[BookieInfo]:
        """Return the writable bookies that are open to new data, by id. Raises as
        ``states.read``."""
        return [*await self._open_to_new.get()]

    async def _read_open_to_new(self) -> list[BookieInfo]:
        found, states = await run_both(self.everything(), self.states.read(), "look at bookies")
        return states.open_to_new(found)

    async def everything(self) -> list[BookieInfo]:
        """Return all writable bookies by id, including those closed to new data."""
        return await super().snapshot()

    async def configured(self) -> list[BookieInfo]:
        """Return every bookie that the cluster knows by id, registered or not."""
        return [
            BookieInfo(bookie, await self.region_of(bookie)) for bookie in await self.all_known()
        ]

    async def in_usable_regions(self) -> list[BookieInfo]:
        """Return the configured bookies, up or down, of the regions where one takes new data now.

        A default quorum counts these: a region without such a bookie may be a mistake, or gone for
        good. If there is no such bookie at all, every configured one is returned.
        """
        usable = {info.region for info in await self.snapshot()}
        known = await self.configured()
        return [info for info in known if info.region in usable] if usable else known

    async def declared_regions(self) -> list[Region] | None:
        """Return the declared regions, sorted; None if the cluster declares none."""
        return await read_declared_regions(self._store, self._root)

    def rack_of(self, bookie: BookieId) -> str | None:
        """Return the rack of a bookie from the cached registrations; None if it is not cached."""
        known = self._registrations.get(bookie)
        return None if known is None else known.location[1]
