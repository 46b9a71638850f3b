"""The directory of bookies as placement should see it: without those closed to new data."""

from ..core.metadata.bookie_directory import BookieDirectory
from ..core.metadata.cluster_layout import ROOT
from ..core.protocol.bookie_id import BookieId
from ..core.protocol.placement import BookieInfo
from ..core.runtime.metadata_store import MetadataStore
from ..core.wire.registration import RACK
from .states import StateStore


class SteeredDirectory(BookieDirectory):
    """A ``BookieDirectory`` whose ``snapshot`` leaves out what an operator closed to new data.

    The states are read after the bookies, with each snapshot: a choice that starts after a command
    has returned obeys it. A choice that had begun before may still be recorded, for as long as its
    process tries to (``metadata_timeout_ms`` of the ledger client).
    """

    __slots__ = ("states",)

    def __init__(self, store: MetadataStore, root: str = ROOT) -> None:
        super().__init__(store, root)
        self.states = StateStore(store, root)

    async def snapshot(self) -> list[BookieInfo]:
        """Writable bookies that are open to new data, sorted by id. Raises as the states do."""
        found = await super().snapshot()
        return (await self.states.read()).open_to_new(found)

    async def everything(self) -> list[BookieInfo]:
        """Writable bookies, also those closed to new data, sorted by id."""
        return await super().snapshot()

    async def configured(self) -> list[BookieInfo]:
        """Every bookie that the cluster knows, up or not, sorted by id."""
        return [BookieInfo(one, await self.region_of(one)) for one in await self.all_known()]

    def rack_of(self, bookie: BookieId) -> str | None:
        """The rack of a bookie that was looked up lately; None: not known here now."""
        known = self._registrations.get(bookie)
        return None if known is None else known.properties.get(RACK)
