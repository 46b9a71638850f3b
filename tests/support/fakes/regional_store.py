"""A metadata store with one server in this region, which a test cuts off from its majority."""

import asyncio
from collections.abc import Sequence

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.core.protocol.errors import MetadataUnavailableError, NoNodeError
from rhumbline.core.runtime.metadata_store import Value
from rhumbline.tests.support.fakes.lossy_store import LossyStore

HANG_S = 10.0
"""Time after which the store gives up a call that needs the majority."""


class RegionalStore(LossyStore):
    """A handle whose reads with ``stale_ok`` are served by the server of this region."""

    def __init__(self, tree: MemoryTree) -> None:
        super().__init__(MemoryStore(tree))
        self.tree = tree
        self.is_cut_off = False
        self.has_server = True
        """False: the server of this region does not respond either."""
        self.get_alls_before_cut: int | None = None
        """Number of calls of ``get_all`` before the region is cut off; None: it is not."""
        self.stale_gets: list[str] = []
        """The paths that were read with ``stale_ok``."""
        self._replica: dict[str, Value] = {}

    def cut_off(self) -> None:
        """Cut the region off; its server keeps what it has now."""
        self.is_cut_off = True
        self._replica = {path: Value(node.data, node.version) for path, node in self.tree.nodes()}

    def fall_behind(self, replica: dict[str, Value]) -> None:
        """Replace what the server of the region has, as another server of it would."""
        self._replica = replica

    @property
    def replica(self) -> dict[str, Value]:
        """What the server of the region has."""
        return dict(self._replica)

    def reconnect(self) -> None:
        """Connect the region again."""
        self.is_cut_off = False

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        if stale_ok:
            self.stale_gets.append(path)
            return self._stale(path)
        await self._need_majority()
        return await super().get(path)

    async def get_all(self, paths: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        if self.get_alls_before_cut == 0:
            self.cut_off()
        elif self.get_alls_before_cut is not None:
            self.get_alls_before_cut -= 1
        await self._need_majority()
        return await super().get_all(paths)

    async def children(
        self,
        path: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        stale_ok: bool = False,
    ) -> list[str]:
        if not stale_ok:
            await self._need_majority()
        elif not self.has_server:
            raise MetadataUnavailableError("the server of the region is down")
        return await super().children(path, after=after, limit=limit)

    def _stale(self, path: str) -> Value:
        if not self.has_server:
            raise MetadataUnavailableError("the server of the region is down")
        if path not in self._replica:
            raise NoNodeError(path)
        return self._replica[path]

    async def _need_majority(self) -> None:
        if self.is_cut_off:
            await asyncio.sleep(HANG_S)
            raise MetadataUnavailableError("cut off")
