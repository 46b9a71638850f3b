"""Commands to the proxies of a simulated run, for faults of proxies."""

import asyncio
from typing import TYPE_CHECKING

from ....core.protocol.errors import RhumblineError
from ....proxies.balance.assignment_store import change_table
from ....proxies.routing import stream_key
from ....proxies.write.claims import Claims
from ..cluster import NAMESPACE, STREAM, SimClient
from ..world.sim_world import SimHost

if TYPE_CHECKING:
    from .proxy_run import ProxyRun

PROXY_PORT = 4281
_RETRY_S = 0.2


class ProxyControls:
    """An operator of the proxies of a run, who works from a host in the first region."""

    def __init__(self, run: "ProxyRun") -> None:
        self._run = run
        self._host = run.world.host("proxy-operator", run.plan.topology.regions[0])

    def start(self) -> None:
        """Start the operator's host."""
        self._host.start(_idle)

    def stop(self, host: SimHost, lasts_ms: int) -> None:
        """Stop a proxy gracefully (SIGTERM); it is restarted ``lasts_ms`` after its end."""
        self._run.stop(host, lasts_ms)

    def move_to(self, host: SimHost) -> None:
        """Set the home region of the stream to that of a write proxy, and pin the stream to it."""
        self._host.spawn(self._repeat(host), f"move to {host.name}")

    async def _repeat(self, host: SimHost) -> None:
        """Move the stream; repeat it until the metadata store has accepted it."""
        async with self._run.cluster.client(self._host) as client:
            while not self._run.world.is_healed:
                try:
                    await _move(client, host)
                    return
                except RhumblineError:
                    await asyncio.sleep(_RETRY_S)


async def _move(client: SimClient, host: SimHost) -> None:
    await Claims(client.store).set_home(NAMESPACE, STREAM, host.region)
    address = f"{host.name}:{PROXY_PORT}"
    key = stream_key(NAMESPACE, STREAM)
    await change_table(client.store, host.region, lambda table: table.with_pin(key, address))


async def _idle(_: SimHost) -> None:
    await asyncio.Event().wait()
