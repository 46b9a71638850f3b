"""A cached copy of the placement states, for decisions that cannot wait for the store (PLC-18)."""

import asyncio

from ..core.protocol.errors import RhumblineError
from ..core.runtime.primitives.single_flight import SingleFlight
from ..core.runtime.tasks import Tasks
from .states import REREAD_MS, PlacementState, PlacementStates, PlacementStateStore


class CachedStates:
    """Follows a ``PlacementStateStore`` while it is used; no timer runs in an idle process.

    While the store can be reached, the copy is at most ``REREAD_MS`` and one read behind. Otherwise
    it is the last copy that was read.
    """

    def __init__(self, states: PlacementStateStore) -> None:
        self._states = states
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._known = PlacementStates()
        self._read_at: float | None = None
        self._refresh = SingleFlight(self._tasks, self._read, "read placement states")
        self._watch = states.watch(self._refresh.request)

    @property
    def now(self) -> PlacementStates:
        """The cached states; reading them starts a refresh in the background if they are old."""
        if self._read_at is None or self._loop.time() - self._read_at > REREAD_MS / 1000:
            self._refresh.request()
        return self._known

    def is_offline(self, region: str | None) -> bool:
        """Return whether an operator declared the region offline."""
        return any(
            name == region and state is PlacementState.OFFLINE
            for name, state in self.now.regions.items()
        )

    async def _read(self) -> None:
        try:
            self._known = await self._states.read()
        except RhumblineError:
            pass  # ``now`` retries after REREAD_MS
        finally:
            self._read_at = self._loop.time()

    async def aclose(self) -> None:
        """Stop following. Safe to repeat."""
        self._watch.close()
        await self._tasks.aclose()
