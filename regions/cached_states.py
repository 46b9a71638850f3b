"""The states as a process knows them now, for decisions that cannot wait for the store."""

import asyncio

from ..core.protocol.errors import RhumblineError
from ..core.runtime.tasks import Tasks
from .states import REREAD_MS, State, States, StateStore


class CachedStates:
    """Follows a ``StateStore`` for as long as it is asked: no timer runs in a process at rest.

    What it says is at most ``REREAD_MS`` and one read of the store behind, while the store can be
    reached; without contact it says what it knew last.
    """

    def __init__(self, states: StateStore) -> None:
        self._states = states
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._known = States()
        self._read_at: float | None = None
        self._is_reading = False
        self._is_hinted = False
        self._watch = states.watch(self._on_hint)

    @property
    def now(self) -> States:
        """What is known; looks again in the background when that is old."""
        if self._read_at is None or self._loop.time() - self._read_at > REREAD_MS / 1000:
            self._refresh()
        return self._known

    def is_offline(self, region: str | None) -> bool:
        """Whether an operator said that the region is away."""
        return any(
            name == region and state is State.OFFLINE for name, state in self.now.regions.items()
        )

    def _on_hint(self) -> None:
        self._is_hinted = True
        self._refresh()

    def _refresh(self) -> None:
        if not self._is_reading and not self._tasks.is_closed:
            self._is_reading = True
            self._tasks.spawn(self._read(), "look at region states")

    async def _read(self) -> None:
        try:
            self._is_hinted = True
            while self._is_hinted:
                self._is_hinted = False
                self._known = await self._states.read()
        except RhumblineError:
            pass  # asked again after the pause that ``now`` makes
        finally:
            self._read_at = self._loop.time()
            self._is_reading = False

    async def aclose(self) -> None:
        """Stops following. Safe to repeat."""
        self._watch.close()
        await self._tasks.aclose()
