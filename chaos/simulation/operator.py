"""An operator who gives commands during a run, on a host that no fault affects."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import RhumblineError
from ...regions.states import PlacementState
from ..checker.run_record import SealPeriod
from .cluster import STREAM, SimClient, SimCluster
from .world.sim_world import SimHost

_RETRY_S = 0.5

Command = Callable[[SimClient], Awaitable[object]]


class Operator:
    """Seals the stream and drains bookies, each for some time."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._host = cluster.world.host("operator", cluster.world.topology.regions[0])
        self._client: SimClient | None = None

    def start(self) -> None:
        """Start the program that gives the commands."""
        self._host.start(self._run)

    def seal(self, lasts_ms: int) -> None:
        """Seal the stream, and unseal it ``lasts_ms`` after that was confirmed."""
        self._spawn(self._seal(lasts_ms), "seal")

    def drain(self, bookie: BookieId, lasts_ms: int) -> None:
        """Drain a bookie, and let it accept new data again after ``lasts_ms``."""
        self._spawn(self._drain(bookie, lasts_ms), "drain")

    async def _run(self, host: SimHost) -> None:
        async with self._cluster.client(host) as self._client:
            await asyncio.Event().wait()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._host.spawn(work, name)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._world.loop.fail(error)

    async def _seal(self, lasts_ms: int) -> None:
        await self._command(lambda client: client.namespace.seal(STREAM))
        period = SealPeriod(self._world.loop.now * 1000)
        self._cluster.seals.append(period)
        await asyncio.sleep(lasts_ms / 1000)
        period.unsealing_ms = self._world.loop.now * 1000
        await self._command(lambda client: client.namespace.unseal(STREAM))

    async def _drain(self, bookie: BookieId, lasts_ms: int) -> None:
        async def set_state(client: SimClient, state: PlacementState | None) -> None:
            await client.directory.states.change(lambda states: states.with_bookie(bookie, state))

        await self._command(lambda client: set_state(client, PlacementState.DRAINED))
        await asyncio.sleep(lasts_ms / 1000)
        await self._command(lambda client: set_state(client, None))

    async def _command(self, command: Command) -> None:
        """Repeat a command until it succeeds."""
        assert self._client is not None
        while True:
            try:
                await command(self._client)
            except RhumblineError as error:
                self._world.trace.note(self._host.name, f"a command failed: {error}")
                await asyncio.sleep(_RETRY_S)
            else:
                return
